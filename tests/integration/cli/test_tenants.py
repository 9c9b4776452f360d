"""`gristmill tenants` writes what the API and the control program go by."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from cli.errors import CommandFailed
from cli.main import app
from jobs import drops, quotas, tenants
from jobs.errors import InvalidValue
from jobs.quotas import Limits
from jobs.settings import StorageSettings
from jobs.storage import Storage
from tests.fixtures.environment import storage_variables
from tests.fixtures.work import Work

Run = Callable[..., Result]


@pytest.fixture
def run(work: Work, database_url: str) -> Run:
    def run(*arguments: str, **settings: str) -> Result:
        env = {"DATABASE__URL": database_url, "COLUMNS": "200", **settings}
        return CliRunner().invoke(app, ["tenants", *arguments], env=env)

    return run


def allowed(work: Work) -> list[str]:
    with work.sessions() as session:
        return tenants.allowed(session, tenant_id=work.tenant_id)


def watched(work: Work) -> list[tuple[str, str, str, str]]:
    with work.sessions() as session:
        return [
            (drop.bucket, drop.prefix, drop.endpoint, drop.completion_window)
            for drop in drops.watched(session, tenant_id=work.tenant_id)
        ]


def test_a_prefix_is_allowed_once_and_taken_back(work: Work, run: Run) -> None:
    for uri in ("s3://data/in", "s3://data/in/", "s3://data/out"):
        assert run("allow", "acme", uri).exit_code == 0
    assert allowed(work) == ["s3://data/in/", "s3://data/out/"]

    result = run("allow", "acme", "s3://data/in", "--remove")

    assert "acme may no longer use s3://data/in/" in result.stdout
    assert allowed(work) == ["s3://data/out/"]


def test_a_drop_folder_is_set_changed_and_taken_back(work: Work, run: Run) -> None:
    assert run("drop", "acme", "s3://data/in").exit_code == 0
    assert watched(work) == [("data", "in/", "/v1/chat/completions", "24h")]

    run("drop", "acme", "s3://data/in", "--endpoint", "/v1/completions", "--window", "7d")
    assert watched(work) == [("data", "in/", "/v1/completions", "7d")]

    assert run("drop", "acme", "s3://data/in", "--remove").exit_code == 0
    assert watched(work) == []


def test_what_a_tenant_may_use_is_shown(run: Run) -> None:
    run("allow", "acme", "s3://data/out")
    run("drop", "acme", "s3://data/in")

    shown = run("show", "acme").stdout

    assert "s3://data/out/" in shown
    assert "s3://data/in/" in shown
    assert "/v1/chat/completions" in shown


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["allow", "nobody", "s3://data/in"], CommandFailed, "no tenant named 'nobody'"),
        (["allow", "acme", "data/in"], InvalidValue, "must be like s3://"),
        (["drop", "acme", "s3://data/in", "--window", "soon"], CommandFailed, "--window must be"),
        (["drop", "acme", "s3://data/in", "--endpoint", "/v1/x"], CommandFailed, "--endpoint must"),
        (["drop", "acme", "s3://data/in", "--remove"], CommandFailed, "is no drop folder of acme"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(
    run: Run, arguments: list[str], error: type[Exception], says: str
) -> None:
    result = run(*arguments)

    assert isinstance(result.exception, error)
    assert says in str(result.exception)


def limits(work: Work) -> Limits:
    with work.sessions() as session:
        return quotas.read_limits(session, tenant_id=work.tenant_id)


def test_quotas_are_set_one_by_one_shown_with_what_is_used_and_lifted(work: Work, run: Run) -> None:
    run("quota", "acme", "queued-requests=1000", "requests-per-second=2.5")
    run("quota", "acme", "active-batches=3")
    assert limits(work) == Limits(1000, None, 3, None, 2.5)
    work.add_batch()

    shown = run("show", "acme").stdout
    result = run("quota", "acme", "queued-requests=none")

    assert ["active batches", "1", "3"] in [
        [cell.strip() for cell in line.strip("│┃ ").split("│")] for line in shown.splitlines()
    ]
    assert "queued requests unlimited" in result.stdout
    assert limits(work) == Limits(None, None, 3, None, 2.5)


@pytest.mark.parametrize(
    "change", ["disk=3", "queued-requests", "queued-requests=-1", "requests-per-second=0", "=3"]
)
def test_a_limit_that_is_none_is_refused(work: Work, run: Run, change: str) -> None:
    result = run("quota", "acme", change)

    assert isinstance(result.exception, CommandFailed)
    assert limits(work) == Limits(None, None, None, None, None)


@pytest.fixture
def storage_env(storage_settings: StorageSettings) -> dict[str, str]:
    return storage_variables(storage_settings)


@pytest.mark.parametrize("verb", ["allow", "drop"])
def test_our_own_bucket_is_nobodys_to_name(
    work: Work, run: Run, storage_env: dict[str, str], verb: str
) -> None:
    own = f"s3://{storage_env['STORAGE__BUCKET']}/in"

    result = run(verb, "acme", own, **storage_env)

    assert isinstance(result.exception, CommandFailed)
    assert "is Gristmill's own bucket" in str(result.exception)
    assert (allowed(work), watched(work)) == ([], [])


def test_a_drop_folder_is_looked_into_before_it_is_set(
    work: Work, run: Run, storage_env: dict[str, str], outside: Storage
) -> None:
    nowhere = run("drop", "acme", "s3://no-such-bucket/in", **storage_env)
    there = run("drop", "acme", f"s3://{outside.bucket}/in", **storage_env)

    assert isinstance(nowhere.exception, CommandFailed)
    assert "s3://no-such-bucket/in/ cannot be read" in str(nowhere.exception)
    assert there.exit_code == 0
    assert [bucket for bucket, *_ in watched(work)] == [outside.bucket]
