"""What is refused of a single request, and the words in which it is.

Every function returns None if there is nothing to refuse.
"""

import math
from collections.abc import Sequence

from engine.requests import Refusal, Request, SamplingParams

MAX_LOGPROBS = 20  # what OpenAI allows
# Far beyond what changes anything, and far within what fp32 can be multiplied by.
MAX_TEMPERATURE = 1000.0
MAX_PENALTY = 1000.0
MAX_BIAS = 1e6


def refuse_params(params: SamplingParams) -> Refusal | None:
    """Refuse the first value that no completion could be made with."""
    most_tokens = math.inf if params.max_tokens is None else params.max_tokens
    rules = (
        ("max_tokens", params.max_tokens is None or params.max_tokens >= 1, "at least 1"),
        ("temperature", 0 <= params.temperature <= MAX_TEMPERATURE, "0 to 1000"),
        ("top_p", 0 < params.top_p <= 1, "more than 0 and at most 1"),
        ("top_k", params.top_k >= 0, "0 (all tokens) or more"),
        ("min_p", 0 <= params.min_p <= 1, "0 to 1"),
        ("repetition_penalty", _is_factor(params.repetition_penalty), "0.001 to 1000"),
        ("presence_penalty", abs(params.presence_penalty) <= MAX_PENALTY, "-1000 to 1000"),
        ("frequency_penalty", abs(params.frequency_penalty) <= MAX_PENALTY, "-1000 to 1000"),
        ("min_tokens", 0 <= params.min_tokens <= most_tokens, "0 or more, at most max_tokens"),
        ("logprobs", params.logprobs is None or 0 <= params.logprobs <= MAX_LOGPROBS, "0 to 20"),
        ("stop", all(params.stop), "non-empty strings"),
    )
    for param, holds, wanted in rules:
        if not holds:
            message = f"{param} must be {wanted}, not {getattr(params, param)!r}."
            return Refusal("invalid_value", message, param)
    return None


def refuse_fields(request: Request) -> Refusal | None:
    if request.adapter:
        message = f"This engine has no adapter {request.adapter!r}."
        return Refusal("unknown_adapter", message, "adapter")
    if request.deadline is not None and not 0 < request.deadline < math.inf:
        message = f"deadline must be more than 0 seconds, not {request.deadline!r}."
        return Refusal("invalid_value", message, "deadline")
    return None


def refuse_named_tokens(params: SamplingParams, *, vocab_size: int) -> Refusal | None:
    """Refuse tokens that the model does not have, and biases that are no number."""
    named = (("logit_bias", tuple(params.logit_bias)), ("stop_token_ids", params.stop_token_ids))
    for param, token_ids in named:
        for token in token_ids:
            if not 0 <= token < vocab_size:
                message = f"{param} has token id {token}; the model's end at {vocab_size - 1}."
                return Refusal("invalid_value", message, param)
    if not all(abs(bias) <= MAX_BIAS for bias in params.logit_bias.values()):
        message = "logit_bias must hold numbers of -1,000,000 to 1,000,000."
        return Refusal("invalid_value", message, "logit_bias")
    if params.grammar is not None and params.min_tokens:
        message = "min_tokens cannot be kept beside a grammar, which says itself when it may end."
        return Refusal("invalid_value", message, "min_tokens")
    return None


def _is_factor(value: float) -> bool:
    return 1 / MAX_PENALTY <= value <= MAX_PENALTY


def refuse_token_ids(token_ids: Sequence[int], *, vocab_size: int) -> Refusal | None:
    if not token_ids:
        return Refusal("invalid_prompt", "The prompt is empty.", "prompt")
    for token in (min(token_ids), max(token_ids)):
        if not 0 <= token < vocab_size:
            message = f"The prompt has token id {token}; the model's end at {vocab_size - 1}."
            return Refusal("invalid_prompt", message, "prompt")
    return None


def refuse_length(
    num_prompt_tokens: int, request: Request, *, max_model_len: int
) -> Refusal | None:
    max_tokens = request.params.max_tokens
    output = 1 if max_tokens is None else max_tokens
    if num_prompt_tokens + output <= max_model_len:
        return None
    asked = f"{num_prompt_tokens} in the prompt"
    if max_tokens is not None:
        asked += f", {max_tokens} in the completion"
    message = (
        f"This model's maximum context length is {max_model_len} tokens, but you asked for "
        f"{num_prompt_tokens + output} ({asked}). Shorten the prompt or the completion."
    )
    param = "prompt" if isinstance(request.prompt, str) else "messages"
    return Refusal("context_length_exceeded", message, param)
