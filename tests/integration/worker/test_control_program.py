"""The control program as it is told to stop."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.fernet import InvalidToken
from sqlalchemy import text

from jobs import keys
from jobs.database import Sessions
from jobs.secrets import Secrets
from tests.fixtures.pipeline import Pipeline, input_line
from tests.fixtures.until import until
from tests.fixtures.work import Work

_ROOT = Path(__file__).parents[3]
_SECONDS = 60  # of a program's end, at most


@contextmanager
def control_program(environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    arguments = [sys.executable, "-m", "worker.control"]
    with subprocess.Popen(arguments, cwd=_ROOT, env=environment) as program:
        yield program
        program.kill()


@pytest.mark.law("P28")
def test_a_control_process_told_to_stop_ends_what_it_has_begun_and_begins_no_more(
    work: Work, pipeline: Pipeline, environment: dict[str, str]
) -> None:
    batches = [pipeline.submit(input_line("a")) for _ in range(3)]
    with work.sessions.begin() as held:
        held.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        held.execute(text("LOCK TABLE requests IN SHARE MODE"))  # the first plan waits for it
        with control_program(environment) as program:
            begun = until(lambda: work.job_state(batches[0]) == "validating")
            program.send_signal(signal.SIGTERM)
            drains = until(lambda: work.scalar("SELECT bool_or(draining) FROM workers"))
            held.rollback()
            code = program.wait(_SECONDS)

    assert (begun, drains, code) == (True, True, 0)
    assert [work.job_state(job_id) for job_id in batches] == ["in_progress", "queued", "queued"]


def test_a_control_process_that_starts_with_two_server_keys_renews_what_the_other_encrypted(
    sessions: Sessions, environment: dict[str, str]
) -> None:
    new = Secrets.generate_key()
    old = environment["SECRETS__KEY"]
    with sessions.begin() as session:
        tenant_id = keys.create_tenant(session, Secrets(old), name="acme")

    def is_renewed() -> bool:
        with sessions() as session:
            with suppress(InvalidToken):
                return bool(keys.webhook_secret(session, Secrets(new), tenant_id=tenant_id))
            return False

    with control_program(environment | {"SECRETS__KEY": new, "SECRETS__OTHER_KEY": old}):
        renewed = until(is_renewed)

    assert renewed


def test_a_server_key_that_reads_nothing_of_what_is_stored_is_refused_in_one_sentence(
    work: Work, environment: dict[str, str]
) -> None:
    assert work.tenant_id is not None  # whose secret is encrypted with another key

    ended = subprocess.run(
        [sys.executable, "-m", "worker.control"],
        cwd=_ROOT,
        env=environment | {"SECRETS__OTHER_KEY": Secrets.generate_key()},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )

    assert ended.returncode == 1
    assert "Neither SECRETS__KEY nor SECRETS__OTHER_KEY reads the stored secrets" in ended.stderr
    assert "Traceback" not in ended.stderr
