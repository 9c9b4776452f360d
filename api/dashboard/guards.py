"""What stands before every page: the session, and for each POST the token of a form of ours."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request, status
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from api.dashboard.sign_in import SESSION_COOKIE, Signer
from jobs import operators
from jobs.database import Sessions

log = logging.getLogger(__name__)

_FORM_LIMIT = 4_096  # bytes; the longest form holds a key and a token


class SignedOut(Exception):
    """There is no session, or it has ended, or its key was revoked."""


@dataclass(frozen=True, slots=True)
class Operator:
    key_id: str
    form_token: str


def operator(request: Request) -> Operator:
    """The holder of a session that stands.  Raises SignedOut."""
    sessions: Sessions = request.app.state.sessions
    signer: Signer = request.app.state.signer
    cookie = request.cookies.get(SESSION_COOKIE, "")
    sign_in = signer.read(cookie)
    if sign_in is None:
        raise SignedOut
    with sessions() as session:
        if not operators.still_stands(session, sign_in):
            raise SignedOut
    return Operator(sign_in.key_id, signer.form_token(cookie))


async def form(request: Request) -> Mapping[str, str]:
    """The fields of a small urlencoded form, read no further than it may be long."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_LIMIT:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE)
    return dict(parse_qsl(body.decode("utf-8", "replace")))


Form = Annotated[Mapping[str, str], Depends(form)]


def form_of(cookie_name: str) -> Callable[..., None]:
    """Refuse a POST whose token was not given to the very browser that holds this cookie."""

    def check(request: Request, fields: Form) -> None:
        signer: Signer = request.app.state.signer
        cookie = request.cookies.get(cookie_name, "")
        if not signer.accepts(fields.get("token", ""), cookie=cookie):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN, "This form is out of date. Load the page again."
            )

    return check


def say_database_is_away(request: Request, error: Exception) -> Response:
    log.warning("no database for the dashboard", exc_info=error)
    return PlainTextResponse(
        "The database does not answer. Try again in a moment.",
        status_code=status.HTTP_503_SERVICE_UNAVAILABLE,
    )


def send_to_sign_in(request: Request, _: Exception) -> Response:
    """A page goes to the sign-in; what scripts fetch says 401, and they go there themselves."""
    if request.url.path.endswith("/data"):
        return Response(status_code=status.HTTP_401_UNAUTHORIZED)
    where = f"{request.scope['root_path']}/login"
    return RedirectResponse(where, status_code=status.HTTP_303_SEE_OTHER)
