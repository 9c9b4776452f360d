"""The routes.  What `signed_in` holds is for operators alone; `entrance` is the door."""

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Request, status
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.dashboard import pages
from api.dashboard.guards import Form, Operator, form_of, operator
from api.dashboard.sign_in import NONCE_COOKIE, SESSION_COOKIE, Signer, new_nonce
from api.dashboard.snapshots import Snapshots
from jobs import operators
from jobs.database import Sessions
from jobs.errors import NotAuthenticated

log = logging.getLogger(__name__)

signed_in = APIRouter(dependencies=[Depends(operator)])
entrance = APIRouter()

_LASTS = int(operators.SIGN_IN_LASTS.total_seconds())


@signed_in.get("/")
def show(request: Request, who: Annotated[Operator, Depends(operator)]) -> HTMLResponse:
    return pages.dashboard(request, _snapshots(request).newest(), form_token=who.form_token)


@signed_in.get("/data")
def refresh(request: Request) -> HTMLResponse:
    """The part of the page that changes, which the page asks for each second."""
    return pages.panel(request, _snapshots(request).newest())


@signed_in.post("/logout", dependencies=[Depends(form_of(SESSION_COOKIE))])
def sign_out(request: Request, who: Annotated[Operator, Depends(operator)]) -> Response:
    log.info("operator signed out", extra={"key_id": who.key_id})
    answer = _redirect(request, "/login")
    answer.delete_cookie(SESSION_COOKIE, path=_path(request))
    return answer


@entrance.get("/login")
def show_sign_in(request: Request) -> HTMLResponse:
    return _sign_in_page(request)


@entrance.post("/login", dependencies=[Depends(form_of(NONCE_COOKIE))])
def sign_in(request: Request, fields: Form) -> Response:
    sessions: Sessions = request.app.state.sessions
    signer: Signer = request.app.state.signer
    try:
        with sessions.begin() as session:
            signed = operators.sign_in(session, fields.get("key", "").strip())
    except NotAuthenticated as refusal:
        log.warning("operator refused")
        return _sign_in_page(request, refusal=str(refusal), code=status.HTTP_401_UNAUTHORIZED)
    log.info("operator signed in", extra={"key_id": signed.key_id})
    answer = _redirect(request, "/")
    _set_cookie(request, answer, SESSION_COOKIE, signer.cookie(signed))
    answer.delete_cookie(NONCE_COOKIE, path=_path(request))
    return answer


def _sign_in_page(
    request: Request, *, refusal: str | None = None, code: int = status.HTTP_200_OK
) -> HTMLResponse:
    signer: Signer = request.app.state.signer
    nonce = request.cookies.get(NONCE_COOKIE) or new_nonce()
    page = pages.sign_in(request, form_token=signer.form_token(nonce), refusal=refusal, code=code)
    _set_cookie(request, page, NONCE_COOKIE, nonce)
    return page


def _set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=_LASTS,
        path=_path(request),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def _redirect(request: Request, to: str) -> Response:
    return RedirectResponse(_path(request) + to, status_code=status.HTTP_303_SEE_OTHER)


def _path(request: Request) -> str:
    path: str = request.scope["root_path"]
    return path


def _snapshots(request: Request) -> Snapshots:
    snapshots: Snapshots = request.app.state.snapshots
    return snapshots
