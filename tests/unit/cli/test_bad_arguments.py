"""No command answers a bad argument or a bad path with a traceback: one sentence, and a code."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.main import main

_COMMANDS = [
    ("batches", "cancel"),
    ("batches", "list"),
    ("batches", "retry"),
    ("batches", "show"),
    ("keys", "create"),
    ("keys", "list"),
    ("keys", "revoke"),
    ("migrate",),
    ("plan", "--memory", "1GiB", "--max-model-len", "64", "--model"),
    ("submit",),
    ("tenants", "allow"),
    ("tenants", "drop"),
    ("tenants", "quota"),
    ("tenants", "show"),
    ("top",),
    ("up", "--data-dir", "file", "--port"),
    ("up", "--data-dir", "file", "--model"),
    ("verify",),
]
_JUNK = [
    *("", "--", "-1", "99999", "~", "s3://", "s3://x/y", "batch_x", "acme", "none"),
    *(
        "file",
        "file/below",
        "folder",
        "nothing",
        "garbage.json",
        "receipt.json",
        "ü\udcff",
        "a\x00b",
    ),
    *("--output", "--data-dir", "--base-url", "--api-key", "--input", "--error", "--window"),
    *("127.0.0.1:8000", "http://127.0.0.1:1x", "http://[::", "ftp://127.0.0.1", "gm_ü"),
]
_API = ["--base-url", "http://127.0.0.1:9", "--api-key", "gm_x"]  # nobody is asked


@pytest.fixture(scope="module", autouse=True)
def litter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder that has one of everything that a path may wrongly lead to."""
    folder = tmp_path_factory.mktemp("litter")
    (folder / "folder").mkdir()
    (folder / "folder" / "up.json").write_text("{", encoding="utf-8")
    for name, content in (
        ("file", "{}\n"),
        ("garbage.json", "{"),
        ("receipt.json", '{"object": "batch.receipt"}'),
    ):
        (folder / name).write_text(content, encoding="utf-8")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    for name in ("DATABASE__URL", "GRISTMILL_BASE_URL", "GRISTMILL_API_KEY"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


def exit_code(arguments: list[str]) -> object:
    """Of `gristmill` in this process.  Whatever else it raises would have been a traceback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gristmill", *arguments])
        try:
            main()
        except SystemExit as end:
            return end.code
    return 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(_COMMANDS), st.lists(st.sampled_from(_JUNK), max_size=4))
def test_no_bad_argument_ends_in_a_traceback(command: tuple[str, ...], junk: list[str]) -> None:
    assert exit_code([*command, *junk]) in (0, 1, 2)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["up", "--port", "99999"], 2, "65535"),
        (["up", "--model", "gpt-4o"], 1, "there is no model at gpt-4o"),
        (["up", "--model", "folder"], 1, "must hold config.json"),
        (["submit", "file", "--output", "file"], 2, "is a file"),
        (["submit", "file", "--base-url", "127.0.0.1:8000", "--api-key", "x"], 1, "like http://"),
        (["submit", "file", "--data-dir", "folder"], 1, "is not what `gristmill up` writes"),
        (["submit", "file", *_API, "--output", "file/below"], 1, "file/below: Not a directory"),
        (["keys", "list", "--data-dir", "file/below"], 1, "no stack runs in file/below"),
        (["verify", "receipt.json"], 1, "no whole receipt: batch_id"),
        (["tenants", "allow", "acme", "s3://x/y"], 1, "3 to 63"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_said_in_words(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    found = exit_code(arguments)

    assert found == code
    assert says in " ".join(capsys.readouterr().err.replace("│", "").split())


@pytest.mark.parametrize("command", [("top", "--once"), ("migrate",), ("keys", "list")], ids=str)
def test_a_database_url_that_is_none_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DATABASE__URL", "nonsense")

    found = exit_code([*command])

    assert found == 1
    assert "DATABASE__URL (write it like postgresql+psycopg://" in capsys.readouterr().err


_INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == "sqlalchemy":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from cli.__main__ import main
main()
"""


def test_ctrl_c_while_a_command_is_still_being_imported_says_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_IMPORT],
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
