"""The one place where an error meets HTTP, in the shape that OpenAI's clients read.

Whatever is not named here is a bug: the client learns that it was not its fault and nothing more,
and the log has the traceback.
"""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from api.patience import NoAnswer
from api.schemas.errors import ErrorDetail, ErrorObject
from jobs.errors import (
    BodyRefused,
    FileChanged,
    IdempotencyConflict,
    InvalidEncoding,
    InvalidJson,
    InvalidValue,
    MissingParameter,
    ModelNotFound,
    NotAllowedNow,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OverQuota,
    QuotaExceeded,
    RateLimited,
    RequestRefused,
    SegmentDamaged,
    StorageUnavailable,
    TokenLimitExceeded,
    TooLarge,
    UnknownParameter,
)
from jobs.faults import words
from jobs.requests import BODIES

STATUS: dict[type[RequestRefused], int] = {
    FileChanged: 409,
    IdempotencyConflict: 409,
    InvalidEncoding: 400,
    InvalidJson: 400,
    InvalidValue: 400,
    MissingParameter: 400,
    ModelNotFound: 404,
    NotAllowedNow: 409,
    NotAuthenticated: 401,
    NotFound: 404,
    NotPermitted: 403,
    OverQuota: 429,
    RateLimited: 429,
    TokenLimitExceeded: 429,
    TooLarge: 413,
    UnknownParameter: 400,
}

# Postgres is away or silent, or every connection is in use: the same request may succeed in a
# moment.
DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeout, NoAnswer)

_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    503: {"Retry-After": "2"},
}
log = logging.getLogger(__name__)

ROUTING = {404: "unknown_url", 405: "method_not_allowed", 408: "body_timeout"}


def install(app: FastAPI) -> None:
    """Give the app an answer to every error."""
    app.add_exception_handler(RequestRefused, _refusal)
    app.add_exception_handler(BodyRefused, _body_refusal)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(HTTPException, _routing)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(StorageUnavailable, _unavailable)
    app.add_exception_handler(SegmentDamaged, _damaged)
    for error in DATABASE_AWAY:
        app.add_exception_handler(error, _unavailable)
    app.add_exception_handler(Exception, _bug)


def refuse(
    status: int,
    message: str,
    *,
    code: str,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """An error's answer, for the few that are no exception."""
    error = ErrorDetail(message=message, type=_kind(status), param=param, code=code)
    headers = _HEADERS.get(status, {}) | (headers or {})
    answer = ErrorObject(error=error).model_dump()
    return JSONResponse(answer, status_code=status, headers=headers)


def refusal_of(error: ValidationError | RequestValidationError) -> RequestRefused:
    """The first fault of a body or of parameters, as the domain would have said it."""
    fault: ErrorDetails = error.errors()[0]
    # A parameter's first part is FastAPI's own: query, path, header.
    location = fault["loc"][1:] if isinstance(error, RequestValidationError) else fault["loc"]
    param = ".".join(map(str, location)) or None
    match fault["type"]:
        case "missing":
            return MissingParameter(f"'{param}' is missing.", param=param)
        case "extra_forbidden":
            return UnknownParameter(
                f"'{param}' is not a parameter of this call. Leave it out, or check its spelling.",
                param=param,
            )
    said = words(fault).rstrip(".") + "."
    return InvalidValue(f"'{param}': {said}" if param else said, param=param)


def _kind(status: int) -> str:
    if status >= 500:
        return "server_error"
    return "rate_limit_error" if status == 429 else "invalid_request_error"


def _refusal(_: Request, error: Any) -> Response:
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, QuotaExceeded) else None
    return refuse(
        STATUS[type(error)], str(error), code=error.code, param=error.param, headers=headers
    )


def _body_refusal(_: Request, error: Any) -> Response:
    return refuse(400, str(error), code=error.code, param=error.param)


def _parameters(request: Request, error: Any) -> Response:
    return _refusal(request, refusal_of(error))


def _routing(request: Request, error: Any) -> Response:
    code = ROUTING.get(error.status_code, "invalid_request")
    hint = _where_else(request) if error.status_code == 404 else ""
    message = f"{request.method} {request.url.path}: {error.detail}.{hint}"
    headers = (
        {"Allow": _allowed(request)} if error.status_code == 405 else dict(error.headers or {})
    )
    return refuse(error.status_code, message, code=code, headers=headers)


def _allowed(request: Request) -> str:
    """The methods that the path takes; the framework names only those of its first route."""
    return ", ".join(
        method
        for method in ("GET", "HEAD", "POST", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    )


def _where_else(request: Request) -> str:
    """What to call instead of a path that nobody answers: most who do leave out /v1, or want an
    endpoint that a batch engine has not."""
    path = request.url.path
    if path == "/":
        return " The API is under /v1, the operator's page at /dashboard; /docs has every call."
    elsewhere = {**request.scope, "path": f"/v1{path}"}
    if any(route.matches(elsewhere)[0] is not Match.NONE for route in request.app.routes):
        return f" It is /v1{path}: the base URL of a client ends in /v1."
    if path.startswith("/v1/"):
        return (
            f" Not supported here; models answer {' and '.join(sorted(BODIES))}, one by one or in"
            " batches, and /docs has every call."
        )
    return ""


def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


def _unavailable(_: Request, error: Exception) -> Response:
    part = "storage" if isinstance(error, StorageUnavailable) else "database"
    message = f"The {part} does not answer just now. Send the same request again in a moment."
    return refuse(503, message, code="service_unavailable")


def _damaged(_: Request, error: Exception) -> Response:
    log.error("results cannot be read: %s", error)
    message = (
        "The object store has lost some of these results. Once the batch has ended, its files have"
        " what is whole, and POST …/retry runs the rest again."
    )
    return refuse(500, message, code="result_lost")


def _bug(_: Request, __: Exception) -> Response:
    message = "The server failed, and it is not your request's fault. The error has been logged."
    return refuse(500, message, code="internal_error")
