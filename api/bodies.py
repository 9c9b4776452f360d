"""Reads a JSON body: counted, strictly parsed, and held against its schema.

Not FastAPI's own body parameter, which reads all of it before it asks who the caller is, and whose
parser takes what api/strict_json.py refuses.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import anyio
from fastapi import HTTPException, Request, status
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from api import strict_json
from api.deps import AllServices, CurrentCaller
from api.errors import refusal_of
from api.openapi import schema_of
from api.services import Services
from jobs.errors import InvalidJson, InvalidValue, TooLarge

Schema = TypeVar("Schema", bound=BaseModel)

# What is parsed sooner than it is handed to a thread.  Ten megabytes would hold up everybody else.
_QUICK_BYTES = 16 * 1024


def body_of(schema: type[Schema]) -> Callable[..., Awaitable[Schema]]:
    """A dependency that gives the request's body as `schema`, to an authenticated caller only."""

    async def read(request: Request, services: AllServices, _: CurrentCaller) -> Schema:
        return await read_body(schema, request, services)

    return read


async def read_body(schema: type[Schema], request: Request, services: Services) -> Schema:
    """The body as `schema`, for a route that takes JSON among other things."""
    limits = services.limits
    raw = await _read(request, limit=limits.json_bytes, silence=limits.upload_silence)
    if len(raw) <= _QUICK_BYTES:
        return _validated(schema, raw)
    return await run_in_threadpool(_validated, schema, raw)


def documented(schema: type[BaseModel]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body `body_of` reads."""
    content = {"application/json": {"schema": schema_of(schema)}}
    return {"requestBody": {"required": _says_something(schema), "content": content}}


def _says_something(schema: type[BaseModel]) -> bool:
    """Whether the body must be there: to say nothing is enough where nothing must be said."""
    return any(field.is_required() for field in schema.model_fields.values())


async def chunks(request: Request, *, silence: timedelta) -> AsyncIterator[bytes]:
    """The body as it comes; 408 if nothing more of it comes for so long."""
    stream = aiter(request.stream())
    while True:
        try:
            with anyio.fail_after(silence.total_seconds()):
                chunk = await anext(stream, None)
        except TimeoutError as error:
            raise HTTPException(
                status.HTTP_408_REQUEST_TIMEOUT, "the rest of the body did not come; send it again"
            ) from error
        if chunk is None:
            return
        yield chunk


async def _read(request: Request, *, limit: int, silence: timedelta) -> bytes:
    refuse_encoded(request)
    raw = bytearray()
    async for chunk in chunks(request, silence=silence):
        raw += chunk
        if len(raw) > limit:
            raise TooLarge(f"The body has over {limit:,} bytes. Send a file for that much.")
    return bytes(raw)


def is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"


def refuse_encoded(request: Request) -> None:
    """A compressed body could grow without bound, so none is unpacked."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise InvalidValue("Send the body uncompressed.", param="Content-Encoding")


def _validated(schema: type[Schema], raw: bytes) -> Schema:
    if not raw and _says_something(schema):
        raise InvalidJson("The body is empty; it must be a JSON object.")
    value = strict_json.parse(raw or b"{}")
    if not isinstance(value, dict):
        raise InvalidValue("The body must be a JSON object.")
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise refusal_of(error) from error
