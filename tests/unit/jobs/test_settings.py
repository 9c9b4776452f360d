"""What a process says of an environment that it cannot use, and what it makes of another."""

import pytest
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.settings import DatabaseSettings, LeaseSettings, SettingsUnusable, StorageSettings, read


class OfAProcess(BaseSettings):
    model_config = SettingsConfigDict(env_nested_delimiter="__", frozen=True)

    database: DatabaseSettings
    storage: StorageSettings
    leases: LeaseSettings = LeaseSettings()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUCKET", "ACCESS_KEY", "SECRET_KEY"):
        monkeypatch.setenv(f"STORAGE__{name}", "something")
    monkeypatch.setenv("DATABASE__URL", "postgresql+psycopg://host/name")


def refusal() -> str:
    with pytest.raises(SettingsUnusable) as refused:
        read(OfAProcess)
    return str(refused.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_postgres_url_in_any_of_its_spellings_means_our_driver(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    rest = "://user:p%40ss@[::1]:5432/name?sslmode=require"
    monkeypatch.setenv("DATABASE__URL", f"{scheme}{rest}")

    url = read(OfAProcess).database.url.get_secret_value()

    assert url == f"postgresql+psycopg{rest}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hush",
        "mysql://user:hush@host/name",
        "postgresql+asyncpg://user:hush@host/name",
        "postgresql://user:hush@host:hush/name",
    ],
)
def test_any_other_database_url_is_refused_with_the_form_to_use_and_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("DATABASE__URL", url)

    said = refusal()

    assert said == (
        "Set these in the environment: DATABASE__URL"
        " (write it like postgresql+psycopg://user:password@host:5432/name)."
    )


def test_of_a_group_that_is_missing_each_variable_that_must_be_set_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("BUCKET", "ACCESS_KEY", "SECRET_KEY"):
        monkeypatch.delenv(f"STORAGE__{name}")

    said = refusal()

    assert said == (
        "Set these in the environment: STORAGE__BUCKET (Field required),"
        " STORAGE__ACCESS_KEY (Field required), STORAGE__SECRET_KEY (Field required)."
    )


@pytest.mark.parametrize("written", ["20x", "20", "", "soon"])
def test_a_duration_that_is_none_is_refused_with_the_form_to_use(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("LEASES__TTL", written)

    said = refusal()

    assert said == "Set these in the environment: LEASES__TTL (write it like PT20S or PT5M)."
