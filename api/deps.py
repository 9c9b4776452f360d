"""What a route may ask for: the caller, a transaction, the services, a page's cursor."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.services import Services
from jobs import ids, quotas
from jobs.errors import NotAuthenticated, NotFound
from jobs.keys import Caller
from jobs.models import JobKind


async def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


AllServices = Annotated[Services, Depends(services)]


def db_session(request: Request) -> Iterator[Session]:
    """One request is one transaction: commit on return, roll back on any exception."""
    found: Services = request.app.state.services
    with found.sessions.begin() as session:
        yield session


# scope="function": commit before the response leaves.  FastAPI's default runs the code after
# `yield` once the response is sent, so a 202 could be followed by a failed commit.
DbSession = Annotated[Session, Depends(db_session, scope="function")]


_Key = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="An API key, gm_…")),
]


async def caller(services: AllServices, sent: _Key) -> Caller:
    """Whose key this is, and that it is not too soon for another call.

    Transactions of its own, so that no route holds one while it waits, and none for a known key.
    """
    if sent is None:
        raise NotAuthenticated(
            "Send your API key as 'Authorization: Bearer gm_…'; `gristmill keys create` makes one."
        )
    key = sent.credentials.strip()
    found = services.keys.recall(key)
    if found is None:
        found = await run_in_threadpool(services.keys.ask, key)
    if found.rate is not None:
        await run_in_threadpool(_take_turn, services, found.tenant_id, found.rate)
    return found


def _take_turn(services: Services, tenant_id: UUID, rate: float) -> None:
    with services.sessions.begin() as session:
        quotas.take_turn(session, tenant_id=tenant_id, rate=rate)


CurrentCaller = Annotated[Caller, Depends(caller)]


_NOUNS = {
    ids.FILE: "file",
    ids.UPLOAD: "upload",
    ids.PART: "part",
    ids.ENDPOINT: "webhook endpoint",
    ids.DELIVERY: "delivery",
    **{ids.JOB_PREFIX[kind]: kind.noun for kind in JobKind},
}


def row_id(prefix: str, name: str, *, param: str) -> UUID:
    """The id behind a public name.  Raises NotFound for any text that names nothing."""
    found = ids.parse(prefix, name)
    if found is None:
        noun = _NOUNS[prefix]
        hint = "" if name.startswith(prefix) else f" The id of a {noun} begins with '{prefix}'."
        raise NotFound(f"There is no {noun} {name[:80]!a}.{hint}", param=param)
    return found


def after_id(prefix: str, name: str | None) -> UUID | None:
    return None if name is None else row_id(prefix, name, param="after")
