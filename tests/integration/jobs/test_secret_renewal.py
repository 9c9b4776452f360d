"""One server key takes another's place, and no webhook loses its signature over it."""

import pytest
from cryptography.fernet import InvalidToken

from jobs import endpoints, keys, secret_renewal
from jobs.database import Sessions
from jobs.models import Tenant, WebhookEndpoint
from jobs.secrets import Secrets
from tests.fixtures.endpoints import COMPLETED, URL

OLD, NEW = Secrets.generate_key(), Secrets.generate_key()


def stored(sessions: Sessions, secrets: Secrets) -> list[str]:
    """Every secret that is stored, as these keys read it."""
    with sessions() as session:
        tenants = [tenant.webhook_secret for tenant in session.query(Tenant)]
        kept = [(each.secret, each.old_secret) for each in session.query(WebhookEndpoint)]
    tokens = [*tenants, *(token for pair in kept for token in pair if token)]
    return [secrets.decrypt(token) for token in tokens]


@pytest.fixture
def endpoint_secrets(sessions: Sessions) -> list[str]:
    """Of a tenant with an endpoint whose secret was rotated, and one that is deleted."""
    secrets = Secrets(OLD)
    with sessions.begin() as session:
        tenant_id = keys.create_tenant(session, secrets, name="acme")
        (kept, first), (gone, _) = (
            endpoints.create(
                session,
                secrets,
                tenant_id=tenant_id,
                name=name,
                url=URL,
                event_types=(COMPLETED,),
            )
            for name in ("kept", "gone")
        )
        whose = {"tenant_id": tenant_id, "endpoint_id": kept.id}
        _, second = endpoints.rotate_secret(session, secrets, **whose, keep_old=True)
        endpoints.delete(session, tenant_id=tenant_id, endpoint_id=gone.id)
    return [second, first]


def test_while_one_key_takes_the_others_place_both_are_read(
    sessions: Sessions, endpoint_secrets: list[str]
) -> None:
    first_the_old, then_the_new = Secrets(OLD, NEW), Secrets(NEW, OLD)

    made_meanwhile = then_the_new.encrypt("made meanwhile")

    assert stored(sessions, then_the_new)[1:] == endpoint_secrets
    assert first_the_old.decrypt(made_meanwhile) == "made meanwhile"


def test_what_is_renewed_is_read_with_the_new_key_alone(
    sessions: Sessions, endpoint_secrets: list[str]
) -> None:
    before = stored(sessions, Secrets(OLD))

    renewed = secret_renewal.renew(sessions, Secrets(NEW, OLD))
    again = secret_renewal.renew(sessions, Secrets(NEW, OLD))

    assert (renewed, again) == (3, 3)
    assert stored(sessions, Secrets(NEW)) == before
    assert before[1:] == endpoint_secrets


def test_a_secret_of_neither_key_is_not_written_over(
    sessions: Sessions, endpoint_secrets: list[str]
) -> None:
    wrong = Secrets(NEW, Secrets.generate_key())

    with pytest.raises(InvalidToken):
        secret_renewal.renew(sessions, wrong)

    assert stored(sessions, Secrets(OLD))[1:] == endpoint_secrets
