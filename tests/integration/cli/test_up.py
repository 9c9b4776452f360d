"""`gristmill up`, from the outside: the command, its file, its processes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from cli.background_stack import background_stack
from cli.errors import ServerUnavailable
from tests.fixtures.folders import open_folder
from tests.fixtures.stack import StartStack, UpStack, starting_in
from tests.integration.cli.processes import is_running, mentioning, wait_for


@pytest.fixture(scope="module")
def shared() -> Iterator[UpStack]:
    """One stack for the tests that leave it as it was, or wait until it is."""
    with open_folder() as folder, starting_in(folder) as start:
        yield start("--workers", "2")


def all_pids(stack: UpStack) -> list[int]:
    pids = dict(stack.facts.pids)
    return [*pids.pop("workers"), *pids.values()]


def is_ready(stack: UpStack) -> bool:
    try:
        return httpx.get(f"{stack.facts.api_url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_up_tells_where_everything_is_to_its_owner_alone(shared: UpStack) -> None:
    facts, file = shared.facts, shared.data_dir / "up.json"

    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert facts.dashboard_url == f"{facts.api_url}/dashboard"
    assert facts.api_key.startswith("gm_")
    assert facts.webhook_secret.startswith("whsec_")
    assert set(facts.storage) == {"endpoint", "bucket", "access_key", "secret_key"}
    assert set(facts.pids) == {
        *("up", "api", "control", "workers", "postgres", "broker", "storage")
    }
    assert len(facts.pids["workers"]) == 2
    assert all(is_running(pid) for pid in all_pids(shared))


def test_up_says_what_its_model_is_and_where_the_logs_are(shared: UpStack) -> None:
    log = shared.data_dir.with_name("up.log")

    wait_for(lambda: "Ready." in log.read_text(encoding="utf-8"))

    said = log.read_text(encoding="utf-8")
    assert "smollm2-135m-instruct: no model, the echo engine" in said
    assert f"Logs       {shared.data_dir / 'logs'}" in said


def test_key_of_the_file_opens_the_api_and_no_other_does(shared: UpStack) -> None:
    url = f"{shared.facts.api_url}/v1/models"

    mine = httpx.get(url, headers={"Authorization": f"Bearer {shared.facts.api_key}"})
    guessed = httpx.get(url, headers={"Authorization": "Bearer gm_guess"})

    assert [model["id"] for model in mine.json()["data"]] == ["smollm2-135m-instruct"]
    assert guessed.status_code == 401


def test_second_up_on_the_same_folder_is_refused_in_one_sentence(shared: UpStack) -> None:
    second = command("up", "--engine", "echo", "--data-dir", str(shared.data_dir))

    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert "another `gristmill up` runs in" in second.stderr
    assert is_ready(shared)


@pytest.mark.parametrize("role", ["postgres", "broker", "storage", "api", "control"])
def test_killed_child_is_started_again(shared: UpStack, role: str) -> None:
    killed = shared.facts.pids[role]

    os.kill(killed, signal.SIGKILL)

    wait_for(lambda: shared.facts.pids[role] != killed, seconds=20)
    wait_for(lambda: is_ready(shared), seconds=20)


def test_killed_worker_is_started_again_and_the_other_left_alone(shared: UpStack) -> None:
    killed, other = shared.facts.pids["workers"]

    os.kill(killed, signal.SIGKILL)

    wait_for(lambda: shared.facts.pids["workers"][0] != killed, seconds=20)
    assert shared.facts.pids["workers"][1] == other


def test_keys_are_made_listed_and_revoked_for_a_running_stack(shared: UpStack) -> None:
    where = ["--data-dir", str(shared.data_dir)]
    created = command("keys", "create", "laptop", *where)
    key = created.stdout.strip()
    headers = {"Authorization": f"Bearer {key}"}
    key_id = key.split("_")[1]

    def answered() -> int:
        return httpx.get(f"{shared.facts.api_url}/v1/models", headers=headers).status_code

    listed = command("keys", "list", *where).stdout
    before = answered()
    revoked = command("keys", "revoke", key_id, *where)
    wait_for(lambda: answered() == 401)  # the API remembers for some seconds whose a key was

    assert "of the tenant default" in created.stderr
    assert key_id in listed
    assert key not in listed
    assert revoked.returncode == 0
    assert before == 200


def test_killed_up_takes_its_children_along_and_the_next_one_goes_on_until_ctrl_c(
    start_stack: StartStack,
) -> None:
    first = start_stack()
    key, pids = first.facts.api_key, all_pids(first)

    first.process.kill()
    wait_for(lambda: not any(is_running(pid) for pid in pids))
    second = start_stack()
    key_again, pids_again = second.facts.api_key, all_pids(second)
    second.process.stop()

    assert key_again == key
    assert second.process.exit_code == 0
    assert not any(is_running(pid) for pid in pids_again)
    assert not (second.data_dir / "up.json").exists()


@pytest.mark.parametrize("reached", ["postgres", "worker-0"])
def test_ctrl_c_in_the_middle_of_a_start_leaves_nothing(open_path: Path, reached: str) -> None:
    data = open_path / "data"
    process = background_stack(data, log=open_path / "up.log", arguments=["--engine", "echo"])
    wait_for(lambda: (data / "logs" / f"{reached}.log").exists(), seconds=30)

    process.stop()

    assert process.exit_code == 130
    assert mentioning(data) == []
    assert not (data / "up.json").exists()


def test_taken_port_is_refused_before_anything_starts(open_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

        refused = command("up", "--port", str(port), "--data-dir", str(open_path / "data"))

    assert refused.returncode == 1
    assert refused.stderr == (
        f"gristmill: port {port} of 127.0.0.1 is in use; choose another with --port\n"
    )
    assert mentioning(open_path / "data") == []


def test_missing_model_is_refused_before_anything_starts(open_path: Path) -> None:
    refused = command("up", "--model", "no-such-model", "--data-dir", str(open_path / "data"))

    assert refused.returncode == 1
    assert refused.stderr.startswith("gristmill: there is no model at no-such-model: ")
    assert refused.stderr.count("\n") == 1
    assert not (open_path / "data").exists()


def test_unusable_model_ends_up_with_the_workers_own_sentence(
    start_stack: StartStack, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")

    with pytest.raises(ServerUnavailable, match=r"has no \*\.safetensors") as caught:
        start_stack("--model", str(tmp_path))

    assert str(caught.value).count("\n") == 0
