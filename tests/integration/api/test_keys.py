"""Who may ask: keys that are good, wrong, revoked, expired."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text

from api.services import Services
from jobs import keys
from jobs.errors import InvalidValue, NotFound
from tests.integration.api.conftest import Tenant

CALLS = (
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/batches"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/models"),
)


def ask(base_url: str, authorization: str | None, path: str = "/v1/models") -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.get(base_url + path, headers=headers)


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_nothing_of_a_tenants_is_open_without_a_key(base_url: str, method: str, path: str) -> None:
    answer = httpx.request(method, base_url + path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_key_that_is_wrong_in_any_part_is_refused_in_the_same_words(
    tenant: Tenant, base_url: str
) -> None:
    _, key_id, secret = tenant.key.split("_")
    wrong = [
        f"Bearer gm_{key_id}_{secret[:-1]}{'b' if secret[-1] == 'a' else 'a'}",
        f"Bearer gm_{'0' * len(key_id)}_{secret}",
        f"Bearer gm_{key_id}_",
        f"Bearer {tenant.key}x",
        "Bearer sk-something",
    ]

    answers = [ask(base_url, authorization) for authorization in wrong]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Basic {key}", "{key}"])
def test_a_header_that_is_no_bearer_is_refused(
    tenant: Tenant, base_url: str, authorization: str | None
) -> None:
    sent = authorization and authorization.format(key=tenant.key)

    assert ask(base_url, sent).status_code == 401


def test_a_revoked_key_stops_at_once(tenant: Tenant, base_url: str, services: Services) -> None:
    key_id = tenant.key.split("_")[1]
    assert ask(base_url, f"Bearer {tenant.key}").status_code == 200

    with services.sessions.begin() as session:
        keys.revoke_key(session, key_id=key_id)

    assert ask(base_url, f"Bearer {tenant.key}").status_code == 401


def test_an_expired_key_is_refused(tenant: Tenant, base_url: str, services: Services) -> None:
    with services.sessions.begin() as session:
        key = keys.create_key(
            session, tenant_id=tenant.id, name="short", expires_in=timedelta(seconds=-1)
        )

    assert ask(base_url, f"Bearer {key}").status_code == 401


def test_the_secret_of_a_key_is_not_stored(tenant: Tenant, services: Services) -> None:
    secret = tenant.key.split("_")[2]

    with services.sessions.begin() as session:
        stored = session.execute(
            text("SELECT row_to_json(k)::text FROM api_keys k WHERE tenant_id = :id"),
            {"id": tenant.id},
        ).scalar_one()

    assert secret not in stored
    assert secret.encode().hex() not in stored


def test_last_use_is_written_at_most_once_a_minute(
    tenant: Tenant, base_url: str, services: Services
) -> None:
    def last_used() -> object:
        with services.sessions.begin() as session:
            (key,) = keys.list_keys(session, tenant_id=tenant.id)
            return key.last_used_at

    ask(base_url, f"Bearer {tenant.key}")
    first = last_used()
    ask(base_url, f"Bearer {tenant.key}")

    assert first is not None
    assert last_used() == first


def test_a_tenants_name_is_taken_once(tenant: Tenant, services: Services) -> None:
    with services.sessions.begin() as session:
        keys.create_tenant(session, services.secrets, name="taken-" + tenant.model)
        assert keys.find_tenant(session, name="taken-" + tenant.model) is not None

        with pytest.raises(InvalidValue):
            keys.create_tenant(session, services.secrets, name="taken-" + tenant.model)


def test_revoking_a_key_that_is_not_there_is_refused(services: Services) -> None:
    with services.sessions.begin() as session, pytest.raises(NotFound):
        keys.revoke_key(session, key_id="nothing")


def test_a_tenants_webhook_secret_is_its_own_and_encrypted(
    tenant: Tenant, other: Tenant, services: Services
) -> None:
    with services.sessions.begin() as session:
        secrets = {
            keys.webhook_secret(session, services.secrets, tenant_id=each.id)
            for each in (tenant, other)
        }
        stored = session.execute(text("SELECT webhook_secret FROM tenants")).scalars().all()

    assert len(secrets) == 2
    assert all(secret.startswith("whsec_") for secret in secrets)
    assert not any(secret.encode() in bytes(row) for secret in secrets for row in stored)
