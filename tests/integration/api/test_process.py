"""`python -m api` as a process: how it starts, refuses to start, and stops."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from sqlalchemy import text

from cli.ports import free_pairs
from jobs import keys
from jobs.database import connect, sessions_of
from jobs.secrets import Secrets

ROOT = Path(__file__).parents[3]


def command(port: int) -> list[str]:
    return [sys.executable, "-m", "api", "--port", str(port)]


def refused_start(environment: dict[str, str], port: int | None = None) -> str:
    """What it says as it refuses; it must be one sentence of ours and exit code 1."""
    done = subprocess.run(
        command(port or free_pairs(1)[0]),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("gristmill: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@contextmanager
def running(
    environment: dict[str, str], log: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The process, ready, and its address."""
    port = free_pairs(1)[0]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(port), cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_ready(process, url)
        yield process, url
        process.terminate()
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()


def _wait_ready(process: subprocess.Popen[bytes], url: str) -> None:
    while process.poll() is None:
        try:
            httpx.get(f"{url}/readyz", timeout=20).raise_for_status()
            return
        except httpx.ConnectError:
            continue
    raise AssertionError("the API ended before it was ready")


def new_key(environment: dict[str, str]) -> str:
    engine = connect(environment["DATABASE__URL"])
    with sessions_of(engine).begin() as session:
        tenant_id = keys.create_tenant(session, Secrets(environment["SECRETS__KEY"]), name="one")
        session.execute(text("INSERT INTO models (name) VALUES ('tiny')"))
        key = keys.create_key(session, tenant_id=tenant_id, name="test")
    engine.dispose()
    return key


def test_settings_that_are_missing_are_named(environment: dict[str, str]) -> None:
    del environment["DATABASE__URL"], environment["STORAGE__BUCKET"]

    said = refused_start(environment)

    assert "DATABASE__URL" in said
    assert "STORAGE__BUCKET" in said


def test_a_database_that_is_away_is_named_without_its_password(
    environment: dict[str, str],
) -> None:
    port = free_pairs(1)[0]
    environment["DATABASE__URL"] = f"postgresql+psycopg://user:hush@127.0.0.1:{port}/name"

    said = refused_start(environment)

    assert "DATABASE__URL" in said
    assert "hush" not in said


def test_a_database_that_was_never_migrated_is_named(environment: dict[str, str]) -> None:
    engine = connect(environment["DATABASE__URL"])
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE models CASCADE"))
    engine.dispose()

    said = refused_start(environment)

    assert "gristmill migrate" in said


def test_a_bucket_that_is_away_is_named(environment: dict[str, str]) -> None:
    environment["STORAGE__BUCKET"] = "there-is-no-such-bucket"
    environment["STORAGE__SECRET_KEY"] = "wrong"

    said = refused_start(environment)

    assert "STORAGE__" in said


def test_a_port_in_use_is_named(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        said = refused_start(environment, port)

    assert f"127.0.0.1:{port}" in said


def test_a_server_key_that_is_none_is_named(environment: dict[str, str]) -> None:
    environment["SECRETS__KEY"] = "short"

    said = refused_start(environment)

    assert "SECRETS__KEY" in said


def test_sigterm_answers_those_who_wait_and_exits_with_0(
    environment: dict[str, str], tmp_path: Path
) -> None:
    key = new_key(environment)
    answers: list[httpx.Response] = []
    with running(environment, tmp_path / "api.log") as (process, url):
        client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
        body = {"messages": [{"role": "user", "content": "hi"}]}
        job = client.post(
            "/v1/jobs", json={"model": "tiny", "endpoint": "/v1/chat/completions", "body": body}
        ).json()
        waiting = threading.Thread(
            target=lambda: answers.append(client.get(f"/v1/jobs/{job['id']}", params={"wait": 60}))
        )
        waiting.start()
        while "gristmill_http_requests_waiting 1.0" not in client.get("/metrics").text:
            pass

        process.send_signal(signal.SIGTERM)
        waiting.join()
        code = process.wait(timeout=20)
        client.close()

    assert answers[0].status_code == 200
    assert answers[0].json()["status"] == "queued"
    assert code == 0


def test_a_failure_of_ours_is_logged_and_nothing_of_it_is_told(
    environment: dict[str, str], tmp_path: Path
) -> None:
    key, log = new_key(environment), tmp_path / "api.log"
    canary = "canary-in-a-prompt"
    body = {"messages": [{"role": "user", "content": canary}]}
    job = {"model": "tiny", "endpoint": "/v1/chat/completions", "body": body}
    with running(environment | {"LOGS__FORMAT": "json"}, log) as (_, url):
        engine = connect(environment["DATABASE__URL"])
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE shards CASCADE"))
        engine.dispose()

        answer = httpx.post(f"{url}/v1/jobs", json=job, headers={"Authorization": f"Bearer {key}"})

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "shards" not in answer.text
    written = log.read_text()
    assert "UndefinedTable" in written
    for secret in (canary, key, environment["STORAGE__SECRET_KEY"], environment["SECRETS__KEY"]):
        assert secret not in written
    assert all(json.loads(line)["message"] for line in written.splitlines())
