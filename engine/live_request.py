"""A request while the engine has it: what the client sent beside what is computed for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from engine.grammars import Grammars
from engine.logprobs import TokenLogprobs
from engine.requests import (
    Alternative,
    Completion,
    FinishReason,
    Refusal,
    Request,
    TokenAlternatives,
)
from engine.sampling import GREEDY, GREEDY_BELOW, Draw
from engine.sequence import Sequence as TokenSequence
from engine.shaping import Shaping, shapes_logits
from engine.stopping import Stopping
from engine.tokenizer import Tokenizer


@dataclass(slots=True)
class LiveRequest:
    """arrived, first_token_at: seconds by the engine's clock
    shaping: None if nothing changes its logits
    logprobs: of the tokens so far, if asked for
    reason: why it has ended
    error: why it cannot go on
    """

    request: Request
    seq: TokenSequence
    stopping: Stopping
    seed: int
    arrived: float
    shaping: Shaping | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    reason: FinishReason | None = None
    error: Refusal | None = None
    first_token_at: float | None = None

    def draw(self, grammars: Grammars) -> Draw:
        """How to choose the next token.  Raises GrammarRefused."""
        params = self.request.params
        if self.shaping is None and params.logprobs is None and params.temperature < GREEDY_BELOW:
            return GREEDY
        return Draw(
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            seed=self.seed,
            position=len(self.seq.token_ids),
            min_p=params.min_p,
            logprobs=params.logprobs,
            edits=self.shaping.edits(self.seq.token_ids, grammars) if self.shaping else None,
        )

    def look(self) -> bool:
        """Look at the newest token, once.  Returns whether it was the last."""
        if self.error is None:
            newest = self.seq.token_ids[-1]
            self.reason = self.stopping.reason(newest, self.seq.num_output_tokens)
            if self.shaping and self.shaping.completes(newest):
                self.reason = "stop"
        return self.error is not None or self.reason is not None

    @property
    def shown_ids(self) -> Sequence[int]:
        """The tokens that its text is made of."""
        return self.stopping.shown(self.seq.output_ids)

    def completion(self, text: str, bytes_of: Callable[[int], bytes]) -> Completion:
        """What it has become, once `look` says so.  text: of its shown tokens"""
        if self.error is not None or self.reason is None:
            return self.failure()
        found = self._completion(self.reason, text=self.stopping.cut(text))
        return replace(found, logprobs=self._alternatives(bytes_of))

    def overdue(self, text: str) -> Completion:
        """What there is of it when its deadline has passed."""
        message = f"The request's deadline of {self.request.deadline} s has passed."
        error = Refusal("deadline_exceeded", message, "deadline")
        return self._completion("abort", text=self.stopping.cut(text), error=error)

    def failure(self) -> Completion:
        return self._completion("error", error=self.error)

    def _alternatives(self, bytes_of: Callable[[int], bytes]) -> list[TokenAlternatives] | None:
        if self.request.params.logprobs is None:
            return None
        shown = len(self.shown_ids)
        return [
            TokenAlternatives(
                Alternative(found.token_id, bytes_of(found.token_id), found.logprob),
                tuple(Alternative(token, bytes_of(token), value) for token, value in found.top),
            )
            for found in self.logprobs[:shown]
        ]

    def _completion(
        self, reason: FinishReason, *, text: str = "", error: Refusal | None = None
    ) -> Completion:
        return Completion(
            request_id=self.request.request_id,
            token_ids=self.seq.output_ids,
            text=text,
            finish_reason=reason,
            prompt_tokens=self.seq.num_prompt_tokens,
            cached_tokens=self.seq.num_cached_prompt_tokens or 0,
            error=error,
        )


def make_live(
    request: Request,
    prompt: list[int],
    *,
    seq_id: int,
    tokenizer: Tokenizer,
    max_tokens: int,
    now: float,
) -> LiveRequest:
    """max_tokens: the request's limit, or that of the model's context"""
    params = request.params
    seq = TokenSequence(
        seq_id=seq_id,
        request_id=request.request_id,
        token_ids=prompt,
        max_tokens=max_tokens,
        max_tokens_given=params.max_tokens is not None,
        priority=request.priority,
        salt=request.salt,
        adapter=request.adapter,
    )
    eos = frozenset() if params.ignore_eos else tokenizer.eos_token_ids
    stop_ids = eos.union(params.stop_token_ids)
    stopping = Stopping(
        tokenizer.decode, max_tokens=max_tokens, stop_ids=stop_ids, stop=tuple(params.stop)
    )
    shaping = None
    if shapes_logits(params):
        shaping = Shaping(params, num_prompt_tokens=len(prompt), stop_ids=stop_ids)
    return LiveRequest(request, seq, stopping, seed_of(request), now, shaping)


def seed_of(request: Request) -> int:
    """The client's seed, or one that belongs to the request's id."""
    if request.params.seed is not None:
        return request.params.seed
    name = request.request_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest())
