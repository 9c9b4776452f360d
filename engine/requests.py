"""What goes into the engine and what comes out: requests and completions.

Plain values.  Nothing here knows how a request is computed, nor where it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Message: TypeAlias = Mapping[str, Any]  # JSON from a client: {"role": ..., "content": ...}
Prompt: TypeAlias = str | Sequence[int] | Sequence[Message]
FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to choose the tokens of one completion.

    max_tokens: completion tokens at most; None: up to the engine's max_model_len.
    temperature: 0 is greedy.
    top_k: 0 keeps every token.
    seed: equal seeds give equal tokens; None: a seed is derived from the request's id, so that a
        request that is run again gives the same tokens again.
    ignore_eos: do not stop at the model's own end tokens; `stop_token_ids` still count.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and its parameters.

    prompt: token ids, or text, or chat messages, which the model's own template turns into text.
    salt: prefixes are shared only among requests of equal salt.
    priority: higher runs first.
    """

    request_id: str
    prompt: Prompt
    params: SamplingParams
    salt: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one request was not computed.  `param` names the field at fault, where there is one."""

    code: str
    message: str
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """How one request ended.

    token_ids holds every sampled token, the one that stopped it included; text stops short of it.
    cached_tokens: prompt tokens whose K and V were already there.
    """

    request_id: str
    token_ids: list[int]
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    error: Refusal | None = None
