"""The same model in transformers, dense and without a cache: what our tokens are held against."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.errors import BenchFailed, OutputsDiffer
from engine.weights.checkpoint import Checkpoint

# Where the reference's two best logits are nearer than this, rounding decides and both are right.
TIE = 1e-3


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt and the greedy tokens that an engine gave for it."""

    request_id: str
    prompt: Sequence[int]
    token_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """requests, tokens: how many were compared; the rest: how many are the reference's best."""

    requests: int
    equal_requests: int
    tokens: int
    equal_tokens: int


def dense_model(checkpoint: Checkpoint) -> Any:
    """A transformers model in fp32 with the checkpoint's weights, ready for a forward pass."""
    import transformers

    model_class = getattr(transformers, checkpoint.config["architectures"][0])
    model = model_class(model_class.config_class(**checkpoint.config)).eval()
    weights = {name: checkpoint.tensor(name) for name in checkpoint.names}
    missing = set(model.load_state_dict(weights, strict=False).missing_keys)
    tied = {"lm_head.weight"} if checkpoint.config.get("tie_word_embeddings") else set()
    if missing - tied:
        raise BenchFailed(f"the reference has no weights for {', '.join(sorted(missing - tied))}")
    model.tie_weights()
    return model


def compare(model: Any, answers: Iterable[Answer], *, refuse: bool) -> Agreement:
    """Hold every token against the best one after all tokens before it: one forward an answer.

    refuse: raise OutputsDiffer at the first token that is not the best, nor tied with it
    """
    agreements = [_compare_one(model, answer, refuse=refuse) for answer in answers]
    return Agreement(
        requests=len(agreements),
        equal_requests=sum(found.equal_requests for found in agreements),
        tokens=sum(found.tokens for found in agreements),
        equal_tokens=sum(found.equal_tokens for found in agreements),
    )


@torch.inference_mode()
def _compare_one(model: Any, answer: Answer, *, refuse: bool) -> Agreement:
    given = torch.tensor(answer.token_ids)
    tokens = torch.tensor([[*answer.prompt, *answer.token_ids]])
    found = model(tokens.to(model.device), use_cache=False, logits_to_keep=len(given) + 1)
    logits = found.logits[0, :-1].float().cpu()
    if refuse:
        _require_best(logits, given, answer.request_id)
    equal = int((logits.argmax(dim=-1) == given).sum())
    return Agreement(1, int(equal == len(given)), len(given), equal)


def _require_best(logits: torch.Tensor, given: torch.Tensor, request_id: str) -> None:
    short = logits.amax(dim=-1) - logits.gather(1, given.unsqueeze(1)).squeeze(1)
    # Written so that a NaN is not accepted either.
    wrong = (~(short <= TIE)).nonzero().flatten().tolist()
    if wrong:
        place = wrong[0]
        raise OutputsDiffer(
            f"request {request_id}: output token {place} is {int(given[place])}, but the reference "
            f"prefers {int(logits[place].argmax())} by {float(short[place]):.4f}"
        )
