"""A store is tried before anything is entrusted to it."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from cli.ports import free_pairs
from jobs.errors import StorageUnavailable
from jobs.settings import StorageSettings
from jobs.storage import Storage
from jobs.storage_probe import FOLDER, probe
from tests.fixtures.changing_proxy import changed
from tests.fixtures.environment import storage_variables

ROOT = Path(__file__).parents[3]


def garbled(answer: bytes) -> bytes:
    return answer.replace(b"gristmill\x00probe\n", b"gristmill\x00pr0be\n")


def without_conditions(answer: bytes) -> bytes:
    """As a store answers that ignores If-None-Match."""
    answer = answer.replace(b"HTTP/1.1 412 Precondition Failed", b"HTTP/1.1 200 OK".ljust(32))
    return answer.replace(b"Error>", b"Reply>")  # or the client takes it for a failure in a 200


def test_a_good_store_is_taken_in_silence_and_left_as_it_was(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    probe(storage)

    assert caplog.messages == []
    assert list(storage.objects(FOLDER)) == []


@pytest.mark.law("P21")
def test_a_store_that_changes_what_it_keeps_is_refused(storage_settings: StorageSettings) -> None:
    with (
        changed(storage_settings, answered=garbled) as settings,
        pytest.raises(StorageUnavailable, match="is not what was written"),
    ):
        probe(Storage(settings))


def test_a_store_without_conditional_writes_is_named_and_taken(
    storage_settings: StorageSettings, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        changed(storage_settings, answered=without_conditions) as settings,
        caplog.at_level(logging.WARNING),
    ):
        probe(Storage(settings))

    (said,) = caplog.messages
    assert "ignores If-None-Match" in said


def test_a_store_that_does_not_answer_is_named_so(storage_settings: StorageSettings) -> None:
    nobody = storage_settings.model_copy(update={"endpoint": "http://127.0.0.1:1"})

    with pytest.raises(StorageUnavailable, match="Could not connect"):
        probe(Storage(nobody))


@pytest.mark.law("P21")
@pytest.mark.parametrize(
    "program",
    [["api", "--port"], ["worker.control"], ["worker.inference"]],
    ids=lambda program: program[0],
)
def test_no_process_starts_on_a_store_that_changes_what_it_keeps(
    environment: dict[str, str], storage_settings: StorageSettings, program: list[str]
) -> None:
    with changed(storage_settings, answered=garbled) as settings:
        model = {"MODEL__NAME": "echo", "MODEL__ENGINE": "echo"}
        port = [str(free_pairs(1)[0])] if program[-1] == "--port" else []
        done = subprocess.run(
            [sys.executable, "-m", *program, *port],
            cwd=ROOT,
            env=environment | storage_variables(settings) | model,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert "what is read from bucket" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("gristmill: ")
