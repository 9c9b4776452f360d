"""`gristmill submit` and `verify`, as their user runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.folders import open_folder
from tests.fixtures.stack import UpStack, starting_in
from tests.integration.cli.processes import wait_for

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stack() -> Iterator[UpStack]:
    with open_folder() as folder, starting_in(folder) as start:
        yield start()


def row(custom_id: str, text: str = "hello", **body: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    body = {"model": "smollm2-135m-instruct", "messages": messages, "max_tokens": 4} | body
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line).encode() + b"\n"


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """Unlike any other test's: the same file submitted twice is one batch."""
    path = tmp_path / "night.jsonl"
    path.write_bytes(b"".join(row(f"r{n}", f"hello from {tmp_path.name}") for n in range(30)))
    return path


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "cli", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=90, check=False
    )


def submit(stack: UpStack, file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run("submit", file, "--data-dir", stack.data_dir, *options)


def ids_in(path: Path) -> list[str]:
    return [json.loads(line)["custom_id"] for line in path.read_bytes().splitlines()]


def remembered(file: Path) -> dict[str, Any]:
    path = file.with_suffix(".submission.json")
    return json.loads(path.read_bytes()) if path.exists() else {}


@contextmanager
def nobody_works(stack: UpStack) -> Iterator[None]:
    """The worker stands still; what it held is given back."""
    (worker,) = stack.facts.pids["workers"]
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def test_a_file_comes_back_as_its_results_with_a_receipt(stack: UpStack, requests: Path) -> None:
    done = submit(stack, requests)

    assert done.returncode == 0, done.stderr
    assert "30 completed, 0 failed, of 30" in done.stderr
    assert ids_in(requests.with_suffix(".output.jsonl")) == [f"r{n}" for n in range(30)]
    assert not requests.with_suffix(".error.jsonl").exists()
    assert remembered(requests) == {}
    receipt = json.loads(requests.with_suffix(".receipt.json").read_bytes())
    assert receipt["batch_id"] == done.stdout.strip()


def test_a_file_that_has_run_is_not_run_again_and_its_user_is_told(
    stack: UpStack, requests: Path
) -> None:
    first = submit(stack, requests)

    second = submit(stack, requests)

    assert second.stdout == first.stdout
    assert "--again runs it once more" in second.stderr


def test_downloaded_files_are_verified_and_a_changed_one_is_found(
    stack: UpStack, requests: Path
) -> None:
    submit(stack, requests)
    output, receipt = (
        requests.with_suffix(f".{name}") for name in ("output.jsonl", "receipt.json")
    )

    whole = run("verify", receipt, "--output", output, "--input", requests)
    output.write_bytes(output.read_bytes().replace(b"hello", b"hallo"))
    changed = run("verify", receipt, "--output", output, "--input", requests)

    assert whole.returncode == 0, whole.stderr
    assert "30 rows, each of them once" in whole.stdout
    assert changed.returncode == 1
    assert "output file's sha256" in changed.stderr


def test_results_go_to_the_folder_that_is_named(
    stack: UpStack, requests: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "results" / "today"

    done = submit(stack, requests, "--output", str(folder))

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "night.output.jsonl",
        "night.receipt.json",
    ]


def test_failed_rows_are_in_the_exit_code_and_in_a_file(stack: UpStack, requests: Path) -> None:
    requests.write_bytes(row("good") + row("hot", temperature=999))

    done = submit(stack, requests)

    assert done.returncode == 3, done.stderr
    assert ids_in(requests.with_suffix(".error.jsonl")) == ["hot"]


def test_a_file_that_cannot_run_says_which_line(stack: UpStack, requests: Path) -> None:
    requests.write_bytes(row("good") + b"{bad\n")

    done = submit(stack, requests)

    assert done.returncode == 4
    assert "line 2: " in done.stderr
    assert "results" not in done.stderr


def test_a_bad_line_may_be_skipped(stack: UpStack, requests: Path) -> None:
    requests.write_bytes(row("good") + b"{bad\n")

    done = submit(stack, requests, "--on-invalid-line", "skip")

    assert done.returncode == 3, done.stderr
    assert ids_in(requests.with_suffix(".output.jsonl")) == ["good"]


def test_what_is_not_waited_for_is_taken_up_by_the_same_command(
    stack: UpStack, requests: Path
) -> None:
    first = submit(stack, requests, "--no-wait")
    second = submit(stack, requests)

    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout == second.stdout
    assert len(ids_in(requests.with_suffix(".output.jsonl"))) == 30


def test_after_ctrl_c_the_same_command_goes_on(stack: UpStack, requests: Path) -> None:
    with nobody_works(stack):
        process = subprocess.Popen(
            command("submit", requests, "--data-dir", stack.data_dir),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: bool(remembered(requests).get("batch_id")), seconds=60)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    batch_id = remembered(requests)["batch_id"]

    again = submit(stack, requests)

    assert process.returncode == 130
    assert "takes up" in told
    assert f"`gristmill batches cancel {batch_id}` ends it" in told
    assert (again.returncode, again.stdout.strip()) == (0, batch_id)


def test_without_its_memory_the_server_still_knows_the_batch(
    stack: UpStack, requests: Path
) -> None:
    first = submit(stack, requests, "--no-wait")
    requests.with_suffix(".submission.json").unlink()

    again = submit(stack, requests, "--no-wait")

    assert again.stdout == first.stdout


def test_a_stack_that_came_back_at_another_address_still_knows_the_batch(
    stack: UpStack, requests: Path, tmp_path: Path
) -> None:
    first = submit(stack, requests, "--no-wait")
    facts = (stack.data_dir / "up.json").read_text(encoding="utf-8")
    moved = facts.replace(
        stack.facts.api_url, stack.facts.api_url.replace("127.0.0.1", "localhost")
    )
    (tmp_path / "up.json").write_text(moved, encoding="utf-8")

    taken_up = run("submit", requests, "--data-dir", tmp_path, "--no-wait")
    requests.with_suffix(".submission.json").unlink()
    known = run("submit", requests, "--data-dir", tmp_path, "--no-wait")

    assert (taken_up.stdout, known.stdout) == (first.stdout, first.stdout)


@pytest.mark.parametrize("options", [("--window", "7d"), ("--again",)], ids=str)
def test_another_option_and_again_make_another_batch(
    stack: UpStack, requests: Path, options: tuple[str, ...]
) -> None:
    first = submit(stack, requests, "--no-wait")

    other = submit(stack, requests, "--no-wait", *options)

    assert other.stdout != first.stdout


def batches(stack: UpStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("batches", *arguments, "--data-dir", stack.data_dir)


def test_a_cancelled_batch_ends_with_6_and_is_run_again_by_a_retry(
    stack: UpStack, requests: Path
) -> None:
    with nobody_works(stack):
        batch_id = submit(stack, requests, "--no-wait").stdout.strip()
        cancelled = batches(stack, "cancel", batch_id)
        done = submit(stack, requests)
    again = batches(stack, "retry", batch_id).stdout.partition(":")[0]

    assert cancelled.returncode == 0, cancelled.stderr
    assert done.returncode == 6, done.stderr
    assert "30 never ran, of 30" in done.stderr
    assert f"`gristmill batches retry {batch_id}`" in done.stderr
    assert len(ids_in(requests.with_suffix(".error.jsonl"))) == 30
    assert again not in ("", batch_id)
    assert again in batches(stack, "list").stdout
    assert f"retry of: {batch_id}" in batches(stack, "show", again).stdout
    assert json.loads(batches(stack, "show", again, "--json").stdout)["id"] == again


def test_a_batch_that_is_not_there_is_one_sentence(stack: UpStack) -> None:
    for verb in ("show", "cancel", "retry"):
        refused = batches(stack, verb, "batch_0")

        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert "404" in refused.stderr


def test_files_that_differ_in_the_suffix_alone_keep_their_own_results(
    stack: UpStack, requests: Path
) -> None:
    other = requests.with_suffix(".json")
    other.write_bytes(row("other", f"hello from {requests.parent.name}"))

    submit(stack, requests)
    submit(stack, other)

    assert len(ids_in(requests.with_name("night.output.jsonl"))) == 30
    assert ids_in(requests.with_name("night.json.output.jsonl")) == ["other"]


def test_a_wrong_key_and_a_missing_stack_are_one_sentence(
    stack: UpStack, requests: Path, tmp_path: Path
) -> None:
    wrong = run(
        "submit", requests, "--base-url", f"{stack.facts.api_url}/v1", "--api-key", "gm_guess"
    )
    nowhere = run("submit", requests, "--data-dir", tmp_path / "nothing")

    assert (wrong.returncode, nowhere.returncode) == (1, 1)
    assert "the API answered 401" in wrong.stderr
    assert "no stack runs in" in nowhere.stderr
    assert list(tmp_path.iterdir()) == [requests]  # nothing was sent, nothing is remembered


def test_the_program_in_the_readme_runs_as_it_is_written(stack: UpStack) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = readme.partition("```python\n")[2].partition("```")[0]

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "API": stack.facts.api_url, "KEY": stack.facts.api_key},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("completed BatchRequestCounts(completed=24, failed=0, total=24)")
    assert done.stdout.count('"custom_id"') == 24
