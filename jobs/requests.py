"""Judges a request's body: the one place that does, for the API and the worker alike.

A body is refused by its own fault alone, with the parameter named; a typing error in a parameter's
name is refused rather than ignored, because the client would wait a night for the wrong answers.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from jobs import faults
from jobs.errors import BodyRefused
from jobs.messages import Message, Tool
from jobs.response_formats import MAX_SCHEMA_BYTES, ResponseFormat

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

# OpenAI's own bounds, and ours where it states none.
MAX_STOPS = 4
MAX_STOP_LENGTH = 256
MAX_OUTPUT_TOKENS = 2**20
MAX_CHOICES = 128
MAX_TOP_LOGPROBS = 20
MAX_TOOLS = 128
MAX_BIASES = 1024
MAX_STOP_TOKENS = 64
MAX_TOKEN_ID = 2**31 - 1
MAX_TOKEN_DIGITS = 9
MAX_GUIDED_CHOICES = 1000

_TokenId = Annotated[int, Field(ge=0, le=MAX_TOKEN_ID)]
_Penalty = Annotated[float, Field(ge=-2, le=2)]
_Bias = Annotated[float, Field(ge=-100, le=100)]

# Tokens expected of a request that names no limit: for its place in the queue alone.
EXPECTED_OUTPUT_TOKENS = 256


class _Body(BaseModel):
    """What both endpoints take.  Parameters that change nothing here are taken and left alone."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: Annotated[dict[str, _Bias], Field(max_length=MAX_BIASES)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=MAX_OUTPUT_TOKENS)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: Annotated[list[_TokenId], Field(max_length=MAX_STOP_TOKENS)] | None = None
    ignore_eos: bool = False
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    response_format: ResponseFormat | None = None
    guided_regex: Annotated[str, Field(min_length=1, max_length=MAX_SCHEMA_BYTES // 4)] | None = (
        None
    )
    guided_choice: (
        Annotated[list[str], Field(min_length=1, max_length=MAX_GUIDED_CHOICES)] | None
    ) = None
    stream: Literal[False] | None = None
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

    @field_validator("logit_bias")
    @classmethod
    def _by_token_ids(cls, biases: dict[str, float] | None) -> dict[str, float] | None:
        for key in biases or ():
            if not (key.isascii() and key.isdigit() and len(key) <= MAX_TOKEN_DIGITS):
                raise ValueError("each key is a token id, written as a string")
        return biases

    @field_validator("guided_regex", "guided_choice")
    @classmethod
    def _one_shape(cls, value: Any, info: ValidationInfo) -> Any:
        asked = [info.data.get("response_format"), info.data.get("guided_regex")]
        if value is not None and any(shape is not None for shape in asked):
            raise ValueError("give one of response_format, guided_regex and guided_choice")
        return value

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def biases(self) -> dict[int, float]:
        return {int(token): bias for token, bias in (self.logit_bias or {}).items()}

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens


class ChatCompletionBody(_Body):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    tools: Annotated[list[Tool], Field(min_length=1, max_length=MAX_TOOLS)] | None = None
    # Calls are not read out of the answer, so none can be promised.
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None

    @field_validator("top_logprobs")
    @classmethod
    def _beside_logprobs(cls, count: int | None, info: ValidationInfo) -> int | None:
        if count is not None and not info.data.get("logprobs"):
            raise ValueError("'logprobs' must be true for it")
        return count

    @property
    def named_logprobs(self) -> int | None:
        """How many of the best tokens to name in each place; None for no logprobs at all."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def output_limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


class CompletionBody(_Body):
    prompt: Annotated[str, Field(min_length=1)]
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: Literal[False] | None = None
    best_of: Literal[1] | None = None

    @property
    def named_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens or 16  # OpenAI's default for this endpoint


BODIES: dict[str, type[ChatCompletionBody] | type[CompletionBody]] = {
    CHAT_COMPLETIONS: ChatCompletionBody,
    COMPLETIONS: CompletionBody,
}


def check_body(endpoint: str, body: dict[str, Any]) -> ChatCompletionBody | CompletionBody:
    """Return the body, typed.  Raises BodyRefused with the first fault, its parameter and code; of
    parameters that are not known, with all of them.  null asks for nothing, whatever it is called.
    """
    asked = {name: value for name, value in body.items() if value is not None}
    try:
        return BODIES[endpoint].model_validate(asked)
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False)
    fault = faults.said(errors, asked)
    if strange := faults.unknown(errors):
        raise BodyRefused(_of_strangers(strange), param=strange[0], code="unknown_parameter")
    raise BodyRefused(
        f"'{fault.path}': {fault.sentence}",
        param=str(errors[0]["loc"][0]),
        code=_CODES.get(fault.kind, "invalid_value"),
    )


def expected_output_tokens(body: dict[str, Any]) -> int:
    """What a body asks for at most, for costs; any body, also one that will be refused."""
    choices = body.get("n")
    if not (isinstance(choices, int) and 0 < choices <= MAX_CHOICES):
        choices = 1
    for name in ("max_completion_tokens", "max_tokens"):
        limit = body.get(name)
        if isinstance(limit, int) and 0 < limit <= MAX_OUTPUT_TOKENS:
            return limit * choices
    return EXPECTED_OUTPUT_TOKENS * choices


_CODES = {"missing": "missing_required_parameter", "extra_forbidden": "unknown_parameter"}


def _of_strangers(names: list[str]) -> str:
    quoted = ", ".join(f"'{name}'" for name in names)
    if len(names) == 1:
        return f"{quoted}: this parameter is not known, or not supported yet; leave it out."
    return f"{quoted}: these parameters are not known, or not supported yet; leave them out."
