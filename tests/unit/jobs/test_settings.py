"""What a process says of an environment that it cannot use, and what it makes of another."""

import pytest
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.settings import DatabaseSettings, SettingsUnusable, read


class OfAProcess(BaseSettings):
    model_config = SettingsConfigDict(env_nested_delimiter="__", frozen=True)

    database: DatabaseSettings


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

    with pytest.raises(SettingsUnusable) as refused:
        read(OfAProcess)

    assert str(refused.value) == (
        "Set these in the environment: DATABASE__URL"
        " (write it like postgresql+psycopg://user:password@host:5432/name)."
    )
