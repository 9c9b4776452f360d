"""A request while the engine has it: what the client sent beside what is computed for it."""

from dataclasses import dataclass
from hashlib import blake2b

from engine.requests import Completion, FinishReason, Refusal, Request
from engine.sampling import Draw
from engine.sequence import Sequence
from engine.stopping import Stopping


@dataclass(frozen=True, slots=True)
class LiveRequest:
    request: Request
    seq: Sequence
    stopping: Stopping
    seed: int

    def draw(self) -> Draw:
        """How to choose the next token."""
        params = self.request.params
        return Draw(
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            seed=self.seed,
            position=len(self.seq.token_ids),
        )

    def ending(self) -> Completion | None:
        """Look at the newest token; the completion, if it was the last."""
        seq = self.seq
        reason = self.stopping.reason(seq.token_ids[-1], seq.num_output_tokens)
        if reason is None:
            return None
        return self._completion(reason, text=self.stopping.text(seq.output_ids))

    def failure(self, error: Refusal) -> Completion:
        return self._completion("error", error=error)

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


def seed_of(request: Request) -> int:
    """The client's seed, or one that belongs to the request's id."""
    if request.params.seed is not None:
        return request.params.seed
    name = request.request_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest())
