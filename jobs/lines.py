"""The lines of a batch's files: reads and judges an input line, writes an output or error line.

Reading is one pass over bytes, and whatever is in a line is that line's fault alone.  The statuses
of output lines are the only HTTP outside `api/`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from jobs import ids, logprobs
from jobs.errors import BodyRefused
from jobs.logprobs import Place
from jobs.requests import CHAT_COMPLETIONS

MAX_LINES = 1_000_000
MAX_LINE_BYTES = 10 * 10**6
MAX_DEPTH = 64
MAX_CUSTOM_ID = 512
MAX_MODEL_NAME = 256

_BLANK = b" \t\r\n\v\f"


class FileLimits(NamedTuple):
    """How much one batch's file may hold."""

    lines: int = MAX_LINES
    line_bytes: int = MAX_LINE_BYTES


class InputLine(NamedTuple):
    custom_id: str
    model: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadLine:
    """Why a line cannot run.  `custom_id` where it could be read."""

    code: str
    message: str
    param: str | None = None
    custom_id: str | None = None


class Choice(NamedTuple):
    """One completion of a prompt; `places` only where log-probabilities were asked for."""

    text: str
    finish_reason: str
    places: list[Place] | None = None


class Answer(NamedTuple):
    """What the engine gave for one request; counts in tokens, `created` in unix seconds.

    The prompt counts once, however many choices it has; output_tokens is their sum.
    """

    choices: tuple[Choice, ...]
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    created: int


def is_blank(raw: bytes) -> bool:
    return not raw.strip(_BLANK)


def read_line(raw: bytes, *, endpoint: str, max_bytes: int = MAX_LINE_BYTES) -> InputLine | BadLine:
    """Judge one line of an input file; `raw` has no line feed.  Never raises."""
    if len(raw) > max_bytes:
        return BadLine("invalid_request", f"The line has over {max_bytes:,} bytes.")
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return _unreadable(raw, error.msg)
    if not isinstance(line, dict):
        return BadLine("invalid_request", "The line is not a JSON object.")
    if too_deep(raw, line):
        return BadLine("invalid_request", f"The line nests deeper than {MAX_DEPTH} levels.")
    return _judge(line, endpoint)


def _unreadable(raw: bytes, why: str) -> BadLine:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return BadLine("invalid_encoding", f"Byte {error.start} of the line is not UTF-8.")
    return BadLine("invalid_json_line", f"The line is not valid JSON: {why}.")


def _judge(line: dict[str, Any], endpoint: str) -> InputLine | BadLine:
    fault = _fault(line, endpoint)
    if fault is None:
        return InputLine(line["custom_id"], line["body"]["model"], line["body"])
    code, param, message = fault
    custom_id = line.get("custom_id")
    readable = custom_id if isinstance(custom_id, str) and _is_custom_id(custom_id) else None
    return BadLine(code, message, param, readable)


# (the code, the parameter, what is wrong and what to do)
_Fault = tuple[str, str, str]


_FIELDS = (("custom_id", str), ("method", str), ("url", str), ("body", dict))
_WORDS: dict[type[object], str] = {str: "a string", dict: "an object"}


def _fault(line: dict[str, Any], endpoint: str) -> _Fault | None:
    for name, kind in _FIELDS:
        if not isinstance(line.get(name), kind):
            return _type_fault(line, name, kind)
    body = line["body"]
    if not isinstance(body.get("model"), str):
        return _type_fault(body, "model", str, param="body.model")
    if not _is_name(body["model"]):
        message = f"'body.model' must have 1 to {MAX_MODEL_NAME} characters and no U+0000."
        return ("invalid_request", "body.model", message)
    return _value_fault(line, body, endpoint)


def _type_fault(
    owner: dict[str, Any], name: str, kind: type[object], *, param: str | None = None
) -> _Fault:
    param = param or name
    if name not in owner:
        return ("missing_required_parameter", param, f"'{param}' is missing.")
    return ("invalid_request", param, f"'{param}' must be {_WORDS[kind]}.")


def _value_fault(line: dict[str, Any], body: dict[str, Any], endpoint: str) -> _Fault | None:
    if not _is_custom_id(line["custom_id"]):
        message = f"'custom_id' must have 1 to {MAX_CUSTOM_ID} characters and no U+0000."
        return ("invalid_request", "custom_id", message)
    if line["method"] != "POST":
        return ("invalid_request", "method", "'method' must be POST.")
    if line["url"] != endpoint:
        message = f"'url' is {line['url'][:80]!r}, but the batch's endpoint is '{endpoint}'."
        return ("url_mismatch", "url", message)
    if body.get("stream") is True:
        return ("invalid_request", "body.stream", "A batch cannot stream; leave 'stream' out.")
    return None


def _is_custom_id(text: str) -> bool:
    return 0 < len(text) <= MAX_CUSTOM_ID and "\x00" not in text


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_MODEL_NAME and "\x00" not in text


def too_deep(raw: bytes, value: object) -> bool:
    """Whether parsed JSON nests deeper than MAX_DEPTH.  `raw`, its text, rules out most at once."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return any(isinstance(child, dict | list) for child in level)


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def answered(job_id: UUID, index: int, *, custom_id: str | None, body: dict[str, Any]) -> bytes:
    """The output line of a request that ran; `body` as `response_body` makes it."""
    return _result_line(job_id, index, custom_id=custom_id, status=200, body=body)


def refused(job_id: UUID, index: int, *, custom_id: str | None, error: BodyRefused) -> bytes:
    """The error line of a request that the endpoint refuses."""
    detail = {
        "message": str(error),
        "type": "invalid_request_error",
        "param": error.param,
        "code": error.code,
    }
    return _result_line(job_id, index, custom_id=custom_id, status=400, body={"error": detail})


def broke(job_id: UUID, index: int, *, custom_id: str | None, code: str, message: str) -> bytes:
    """The error line of a request that the endpoint failed at, for no fault of the request's."""
    detail = {"message": message, "type": "server_error", "param": None, "code": code}
    return _result_line(job_id, index, custom_id=custom_id, status=500, body={"error": detail})


def never_ran(job_id: UUID, index: int, *, custom_id: str | None, code: str, message: str) -> bytes:
    """The error line of a request that has no response."""
    return _dump(
        {
            "id": ids.of_request(job_id, index),
            "custom_id": custom_id,
            "response": None,
            "error": {"code": code, "message": message},
        }
    )


def invalid(job_id: UUID, index: int, *, line: int, bad: BadLine) -> bytes:
    """The error line of an input line that was skipped as invalid; `line` is its number."""
    return _dump(
        {
            "id": ids.of_request(job_id, index),
            "custom_id": bad.custom_id,
            "line": line,
            "response": None,
            "error": {"code": bad.code, "message": bad.message},
        }
    )


def response_body(
    job_id: UUID, index: int, *, endpoint: str, model: str, answer: Answer
) -> dict[str, Any]:
    """The body that the endpoint itself would answer with."""
    chat = endpoint == CHAT_COMPLETIONS
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{job_id.hex}{index:08x}",
        "object": "chat.completion" if chat else "text_completion",
        "created": answer.created,
        "model": model,
        "choices": [_choice(at, choice, chat=chat) for at, choice in enumerate(answer.choices)],
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.prompt_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        },
    }


def _choice(index: int, choice: Choice, *, chat: bool) -> dict[str, Any]:
    written: dict[str, Any] = {
        "index": index,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
    }
    if choice.places is not None:
        shape = logprobs.of_chat if chat else logprobs.of_completion
        written["logprobs"] = shape(choice.places)
    if chat:
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        return written | {"message": message}
    return written | {"text": choice.text}


def _result_line(
    job_id: UUID, index: int, *, custom_id: str | None, status: int, body: dict[str, Any]
) -> bytes:
    request_id = ids.of_request(job_id, index)
    response = {"status_code": status, "request_id": request_id, "body": body}
    return _dump({"id": request_id, "custom_id": custom_id, "response": response, "error": None})


def _dump(line: dict[str, Any]) -> bytes:
    return orjson.dumps(line) + b"\n"
