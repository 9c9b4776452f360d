"""Judges a request's body: the one place that does, for the API and the worker alike.

A body is refused by its own fault alone, with the parameter named; a typing error in a parameter's
name is refused rather than ignored, because the client would wait a night for the wrong answers.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobs.errors import BodyRefused

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

# OpenAI's own bounds, and ours where it states none.
MAX_STOPS = 4
MAX_STOP_LENGTH = 256
MAX_OUTPUT_TOKENS = 2**20

# Tokens expected of a request that names no limit: for its place in the queue alone.
EXPECTED_OUTPUT_TOKENS = 256


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class _Body(BaseModel):
    """What both endpoints take.  Parameters that change nothing here are taken and left alone."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool = False
    n: Literal[1] | None = None
    stream: Literal[False] | None = None
    logprobs: Literal[False, 0] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    @field_validator("stop")
    @classmethod
    def _few_short_stops(cls, stop: str | list[str] | None) -> str | list[str] | None:
        stops = [stop] if isinstance(stop, str) else stop or []
        if len(stops) > MAX_STOPS:
            raise ValueError(f"at most {MAX_STOPS} stop strings")
        if not all(0 < len(text) <= MAX_STOP_LENGTH for text in stops):
            raise ValueError(f"a stop string has 1 to {MAX_STOP_LENGTH} characters")
        return stop

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens


class ChatCompletionBody(_Body):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    response_format: dict[Literal["type"], Literal["text"]] | None = None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class CompletionBody(_Body):
    prompt: Annotated[str, Field(min_length=1)]
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens or 16  # OpenAI's default for this endpoint


BODIES: dict[str, type[ChatCompletionBody] | type[CompletionBody]] = {
    CHAT_COMPLETIONS: ChatCompletionBody,
    COMPLETIONS: CompletionBody,
}


def check_body(endpoint: str, body: dict[str, Any]) -> ChatCompletionBody | CompletionBody:
    """Return the body, typed.  Raises BodyRefused with the first fault, its parameter and code."""
    try:
        return BODIES[endpoint].model_validate(body)
    except ValidationError as refusal:
        fault = refusal.errors(include_url=False, include_input=False)[0]
    raise BodyRefused(
        f"'{_path(fault['loc'])}': {_sentence(fault['type'], fault['msg'])}",
        param=str(fault["loc"][0]),
        code=_CODES.get(fault["type"], "invalid_value"),
    )


def expected_output_tokens(body: dict[str, Any]) -> int:
    """What a body asks for at most, for costs; any body, also one that will be refused."""
    for name in ("max_completion_tokens", "max_tokens"):
        limit = body.get(name)
        if isinstance(limit, int) and 0 < limit <= MAX_OUTPUT_TOKENS:
            return limit
    return EXPECTED_OUTPUT_TOKENS


_CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}


def _path(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)


def _sentence(kind: str, message: str) -> str:
    match kind:
        case "missing":
            return "this parameter is required."
        case "extra_forbidden":
            return "this parameter is not known, or not supported yet; leave it out."
        case _:
            return f"{message.removeprefix('Value error, ')}."
