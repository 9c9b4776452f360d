"""What an operator sees of webhooks: those that fail, by host, and no others."""

import pytest
from sqlalchemy import text

from jobs import deliveries, endpoints, overview
from jobs.deliveries import BROKEN_AFTER, Outcome
from jobs.endpoints import EndpointChange
from jobs.models import WorkerKind
from jobs.overview.views import WebhookView
from tests.fixtures.endpoints import add_endpoint, end_a_batch, make_due
from tests.fixtures.work import Work
from tests.integration.dashboard.scene import TTL, Scene
from tests.integration.dashboard.visitor import Visitor


def look(work: Work) -> list[WebhookView]:
    return list(overview.take(work.sessions, beat_ttl=TTL).webhooks)


def attempt(work: Work, status: int, *, times: int = 1) -> None:
    """Whatever is due is answered so."""
    me = work.add_worker(kind=WorkerKind.CONTROL)
    for _ in range(times):
        make_due(work)
        with work.sessions.begin() as session:
            lease = deliveries.claim(session, me)
            assert lease is not None
            deliveries.record(session, lease, Outcome(status, None))


def test_a_webhook_that_works_is_not_listed(work: Work) -> None:
    add_endpoint(work)
    end_a_batch(work)

    attempt(work, 204)

    assert look(work) == []


@pytest.mark.parametrize(("times", "state"), [(1, "failing"), (BROKEN_AFTER, "resting")])
def test_a_host_that_fails_is_listed_without_the_rest_of_its_url(
    work: Work, times: int, state: str
) -> None:
    end_a_batch(work, "https://example.com:8443/secret?token=x")

    attempt(work, 500, times=times)

    (seen,) = look(work)
    assert (seen.tenant, seen.endpoint, seen.host) == ("acme", None, "example.com:8443")
    assert (seen.failures, seen.state) == (times, state)


def test_an_endpoint_that_was_disabled_says_why_and_one_that_was_deleted_is_gone(
    work: Work,
) -> None:
    gone, kept = add_endpoint(work), add_endpoint(work)
    end_a_batch(work)
    attempt(work, 410, times=2)
    with work.sessions.begin() as session:
        endpoints.delete(session, tenant_id=work.tenant_id, endpoint_id=gone)

    (seen,) = look(work)
    assert (seen.endpoint, seen.state) == ("ours", "disabled")
    assert seen.disabled_reason == "it answered 410: it is gone"

    with work.sessions.begin() as session:
        endpoints.change(
            session,
            tenant_id=work.tenant_id,
            endpoint_id=kept,
            wanted=EndpointChange(enabled=True),
        )
    assert look(work) == []


def test_the_page_has_them(work: Work, visitor: Visitor, scene: Scene) -> None:
    end_a_batch(work, "https://dead.example/")
    attempt(work, 500)
    with work.sessions.begin() as session:
        session.execute(text("UPDATE tenants SET name = '<b>acme' WHERE name = 'acme'"))
    visitor.sign_in(scene.key(admin=True))

    page = visitor.client.get("/dashboard/").text

    assert "dead.example" in page
    assert "&lt;b&gt;acme" in page
