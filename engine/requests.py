"""What goes into the engine and what comes out: requests and completions.

Plain values.  Nothing here knows how a request is computed, nor where it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Message: TypeAlias = Mapping[str, Any]  # JSON from a client: {"role": ..., "content": ...}
Tool: TypeAlias = Mapping[str, Any]  # {"type": "function", "function": {"name": ..., ...}}
Prompt: TypeAlias = str | Sequence[int] | Sequence[Message]
FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a completion's text must be.

    text: a JSON Schema, a regular expression that all of the text matches, or a JSON list of the
        texts to choose from
    """

    kind: Literal["json_schema", "regex", "choice"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to choose the tokens of one completion.

    max_tokens: completion tokens at most; None: up to the engine's max_model_len.
    temperature: 0 is greedy.
    top_k: 0 keeps every token.
    min_p: drops tokens less likely than this share of the most likely one.
    repetition_penalty: divides (positive) or multiplies (negative) the logits of every token of the
        prompt and of the completion so far; 1 changes nothing.
    presence_penalty, frequency_penalty: taken from the logits of the completion's tokens, once, and
        once for each time.
    logit_bias: what is added to the logits of these tokens.
    min_tokens: no end token and none of `stop_token_ids` comes before so many tokens.
    logprobs: None, or how many of the best tokens to name beside each chosen token's
        log-probability.  All are the model's own, before any of the above.
    grammar: None, or what the text must be.
    seed: equal seeds give equal tokens; None: a seed is derived from the request's id, so that a
        request that is run again gives the same tokens again.
    ignore_eos: do not stop at the model's own end tokens; `stop_token_ids` still count.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and its parameters.

    prompt: token ids, or text, or chat messages, which the model's own template turns into text.
    tools: definitions that the model's template shows it.  Its calls come back as plain text.
    salt: prefixes are shared only among requests of equal salt.
    adapter: the adapter whose weights are to be used; empty for the model as it is.
    priority: higher runs first.
    deadline: seconds, from when the engine gets it, after which it ends as it is; None: no limit.
    """

    request_id: str
    prompt: Prompt
    params: SamplingParams
    tools: Sequence[Tool] = ()
    salt: str = ""
    adapter: str = ""
    priority: int = 0
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one request was not computed.  `param` names the field at fault, where there is one;
    `ours`: none is, the engine or its model failed."""

    code: str
    message: str
    param: str | None = None
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have been, or was.  content: its bytes, which may be half a character."""

    token_id: int
    content: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenAlternatives:
    """One place in a completion: what was chosen, and the best tokens there, the best first."""

    chosen: Alternative
    top: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """How one request ended.

    token_ids holds every sampled token, the one that stopped it included; text stops short of it.
    finish_reason is "abort" where the request's deadline ended it; `error` then says so.
    cached_tokens: prompt tokens whose K and V were already there.
    logprobs: if they were asked for, one for each token but an end or stop token at the end.
    """

    request_id: str
    token_ids: list[int]
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    error: Refusal | None = None
    logprobs: list[TokenAlternatives] | None = None
