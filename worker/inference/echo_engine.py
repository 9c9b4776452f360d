"""An engine without a model: answers each request with its own last words.

For trying the queue and measuring it (`gristmill up --engine echo`, `gristmill bench queue`).  It
loads no torch.  Equal requests get equal answers, as from the real engine.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from engine.requests import Completion, Prompt, Request
from engine.stats import EngineStats

_ROOM = 4 * 1024 * 1024  # tokens; enough that the queue, not the engine, is what is measured
_TOKENS_A_REQUEST = 256
_REQUESTS_A_STEP = 256


class EchoEngine:
    """A word counts as a token."""

    def __init__(self) -> None:
        self._waiting = deque[Request]()
        self._stats = {"prompt": 0, "output": 0, "steps": 0}

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    @property
    def steps(self) -> int:
        return self._stats["steps"]

    def room(self) -> int:
        return _ROOM - _TOKENS_A_REQUEST * len(self._waiting)

    def add(self, requests: Iterable[Request]) -> list[Completion]:
        self._waiting.extend(requests)
        return []

    def expect(self, prompts: Sequence[Prompt], count: int, *, salt: str = "") -> None:
        """Nothing is kept here, whoever will come."""

    def abort(self, request_ids: Iterable[str]) -> None:
        dropped = set(request_ids)
        self._waiting = deque(
            request for request in self._waiting if request.request_id not in dropped
        )

    def step(self) -> list[Completion]:
        count = min(len(self._waiting), _REQUESTS_A_STEP)
        self._stats["steps"] += 1
        return [self._answer(self._waiting.popleft()) for _ in range(count)]

    def stats(self) -> EngineStats:
        prompt, output = self._stats["prompt"], self._stats["output"]
        return EngineStats(
            running=min(len(self._waiting), _REQUESTS_A_STEP),
            waiting=max(len(self._waiting) - _REQUESTS_A_STEP, 0),
            kv_blocks_used=0,
            kv_blocks_total=0,
            prefill_tokens_computed=prompt,
            prefill_tokens_logical=prompt,
            cached_tokens=0,
            output_tokens=output,
            preemptions=0,
            steps=self._stats["steps"],
            step_seconds=0.0,
        )

    def _answer(self, request: Request) -> Completion:
        words = _last_text(request).split()
        limit = request.params.max_tokens or len(words)
        said = words[:limit]
        self._stats["prompt"] += len(words)
        self._stats["output"] += len(said)
        return Completion(
            request_id=request.request_id,
            token_ids=list(range(len(said))),
            text=" ".join(said),
            finish_reason="length" if len(said) < len(words) else "stop",
            prompt_tokens=len(words),
            cached_tokens=0,
        )


def _last_text(request: Request) -> str:
    prompt = request.prompt
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if prompt else ""
    return str(last["content"]) if not isinstance(last, int | str) else str(last)
