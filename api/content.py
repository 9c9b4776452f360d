"""Answers with a file's bytes: all, one range, or none where the client has them already."""

from collections.abc import Iterable, Iterator
from itertools import chain
from urllib.parse import quote

from fastapi import Request, Response, status
from fastapi.responses import StreamingResponse

from api import ranges
from api.errors import refuse
from api.ranges import Span, Unsatisfiable
from jobs import files
from jobs.models import File
from jobs.storage import Storage


def answer(request: Request, storage: Storage, file: File) -> Response:
    """Raises FileChanged before the first byte is sent."""
    etag = f'"{file.sha256}"'
    if _is_there(request, etag):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={"ETag": etag})
    try:
        span = ranges.requested(_range_header(request, etag), file.bytes)
    except Unsatisfiable:
        return _unsatisfiable(file)
    sent = span or Span(0, file.bytes)
    headers = _headers(file, etag) | {"Content-Length": str(sent.end - sent.start)}
    if span is not None:
        headers["Content-Range"] = f"bytes {span.start}-{span.end - 1}/{file.bytes}"
    code = status.HTTP_200_OK if span is None else status.HTTP_206_PARTIAL_CONTENT
    if request.method == "HEAD":
        return Response(status_code=code, headers=headers)
    chunks = files.stream(storage, file, start=sent.start, end=sent.end)
    return StreamingResponse(_begun(chunks), status_code=code, headers=headers)


def _is_there(request: Request, etag: str) -> bool:
    """Whether If-None-Match names our bytes; W/ only says that a copy may have been repacked."""
    tags = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
    return not tags.isdisjoint({"*", etag, f"W/{etag}"})


def _range_header(request: Request, etag: str) -> str | None:
    """The range, unless its sender has a part of another file than ours."""
    if request.headers.get("if-range", etag) != etag:
        return None
    return request.headers.get("range")


def _begun(chunks: Iterator[bytes]) -> Iterable[bytes]:
    """The same chunks, the first of them read: S3's refusal must come before our 200."""
    return chain([next(chunks, b"")], chunks)


def _headers(file: File, etag: str) -> dict[str, str]:
    return {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, immutable",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.filename, safe='')}",
        "Content-Type": "application/octet-stream",
        "ETag": etag,
        "X-Content-Type-Options": "nosniff",
    }


def _unsatisfiable(file: File) -> Response:
    return refuse(
        status.HTTP_416_RANGE_NOT_SATISFIABLE,
        f"The file has only {file.bytes:,} bytes.",
        code="range_not_satisfiable",
        param="Range",
        headers={"Content-Range": f"bytes */{file.bytes}"},
    )
