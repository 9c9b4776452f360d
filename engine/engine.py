"""The engine: requests in, completions out, one step at a time.

It owns all that one device computes.  It must never know jobs, rows, queues or files: what a
request belongs to is its caller's business.  One thread calls it; `steps`, `stats` and `room` may
be read from others.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from time import monotonic

from engine.deadlines import Deadlines
from engine.errors import ProcessForked
from engine.grammars import GrammarRefused, Grammars
from engine.intake import Intake
from engine.live_request import LiveRequest, make_live
from engine.model_runner import ModelRunner
from engine.out_of_memory import is_out_of_memory
from engine.requests import Completion, Prompt, Refusal, Request, SamplingParams
from engine.sampling import GREEDY, Draw, Drawn
from engine.scheduler import Scheduler
from engine.sequence import Sequence as TokenSequence
from engine.stats import Counters, EngineStats
from engine.step_batch import StepBatch
from engine.tokenizer import Tokenizer

log = logging.getLogger(__name__)

_NOT_FINITE = Refusal(
    "logits_not_finite",
    "The model gave NaN or infinity for this request's next token: its weights are damaged, or its "
    "numbers exceed the precision that it runs in.",
    ours=True,
)


class Engine:
    """clock: seconds, from any start, that never go back."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        *,
        intake: Intake,
        grammars: Grammars,
        tokenizer: Tokenizer,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._intake = intake
        self._grammars = grammars
        self._tokenizer = tokenizer
        self._clock = clock
        self._process = os.getpid()
        self._deadlines = Deadlines(clock)
        self._live: dict[str, LiveRequest] = {}
        self._seq_ids = count()
        self._counters = Counters()

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def steps(self) -> int:
        """Steps completed since the start.  It stands still while a step hangs."""
        return self._counters.steps

    def room(self) -> int:
        """Tokens of KV that may still be promised; negative while more is promised than there is.

        The pool less what is held or forecast for every request here, waiting ones included.
        """
        return self._scheduler.room

    def stats(self) -> EngineStats:
        return self._counters.snapshot(self._scheduler)

    def add(self, requests: Iterable[Request]) -> list[Completion]:
        """Queue the requests, tokenised as one batch.  Returns those refused, as completions.

        Raises ProcessForked.
        """
        self._refuse_in_a_fork()
        requests = list(requests)
        refused = []
        for request, prompt in zip(requests, self._intake.prompts(requests), strict=True):
            refusal = prompt if isinstance(prompt, Refusal) else self._queue(request, prompt)
            if refusal is not None:
                refused.append(_refused(request, refusal))
        return refused

    def expect(self, prompts: Sequence[Prompt], count: int, *, salt: str = "") -> None:
        """`count` more requests will be added that begin as all of `prompts` do.

        The K and V of this beginning, rounded down to blocks, are kept until then unless those who
        are here need the room.  Each request that comes with it counts down.  What was said of the
        same beginning before is forgotten, so that a count of 0 takes it back.
        """
        params = SamplingParams(max_tokens=1)
        requests = [Request(request_id="", prompt=p, params=params, salt=salt) for p in prompts]
        found = [p for p in self._intake.prompts(requests) if not isinstance(p, Refusal)]
        self._scheduler.expect(_shared_beginning(found), count, salt=salt)

    def step(self) -> list[Completion]:
        """Compute one step.  Returns the completions of the requests that ended in it.

        Raises ProcessForked.
        """
        self._refuse_in_a_fork()
        started = self._clock()
        overdue = self._end_overdue()
        batch = self._scheduler.step()
        self._counters.count_scheduled(batch)
        self._runner.copy_blocks(batch.copies)
        drawn = self._run(batch) if batch.chunks else None
        if drawn is None:
            return overdue
        grown = self._scheduler.record(batch, drawn.tokens)
        for row, found in drawn.logprobs.items():
            self._live[grown[row].request_id].logprobs.append(found)
        for row in drawn.broken:
            self._break(grown[row])
        now = self._clock()
        ended = [live for seq in grown if (live := self._look(seq, now))]
        completions = self._complete(ended)
        self._scheduler.finish([live.seq for live in ended])
        for live in ended:
            del self._live[live.request.request_id]
        self._counters.count_computed(batch, seconds=now - started)
        return overdue + completions

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests, running or waiting, without a completion.  Unknown ids are ignored."""
        for request_id in request_ids:
            live = self._live.pop(request_id, None)
            if live is not None:
                self._scheduler.abort(live.seq)

    def _refuse_in_a_fork(self) -> None:
        if os.getpid() != self._process:  # to wait for threads that are not here would be for ever
            raise ProcessForked(
                "an engine computes only in the process that loaded it, not in forks"
            )

    def _queue(self, request: Request, prompt: list[int]) -> Refusal | None:
        if request.request_id in self._live:
            message = f"A request with the id {request.request_id!r} is running already."
            return Refusal("duplicate_request_id", message, "request_id")
        try:
            live = make_live(
                request,
                prompt,
                seq_id=next(self._seq_ids),
                tokenizer=self._tokenizer,
                max_tokens=self._intake.max_tokens(request, prompt),
                now=self._clock(),
            )
        except Exception:  # whatever one request holds, it must not stop the others
            log.exception("request not begun", extra={"request_id": request.request_id})
            return Refusal("internal_error", "The request could not be begun.", ours=True)
        self._live[request.request_id] = live
        self._scheduler.add(live.seq)
        if request.deadline is not None:
            seq_id = live.seq.seq_id
            self._deadlines.set(seq_id, request.request_id, seconds=request.deadline)
        return None

    def _end_overdue(self) -> list[Completion]:
        ended = []
        for seq_id, request_id in self._deadlines.passed():
            live = self._live.get(request_id)
            if live is not None and live.seq.seq_id == seq_id:
                ended.append(live.overdue(self._tokenizer.decode(live.shown_ids)))
                self.abort([request_id])
        return ended

    def _run(self, batch: StepBatch) -> Drawn | None:
        """Compute the step; None if its memory could not be had, but a smaller one's may."""
        try:
            return self._runner.run(batch, self._draw)
        except (RuntimeError, MemoryError) as error:
            if not (is_out_of_memory(error) and self._scheduler.shrink()):
                raise
            log.warning("out of memory: smaller steps from now on", exc_info=True)
            return None

    def _draw(self, seq: TokenSequence) -> Draw:
        live = self._live[seq.request_id]
        try:
            return live.draw(self._grammars)
        except GrammarRefused as refusal:
            live.error = _too_complex(refusal)
        except Exception:  # as in `_has_ended`
            log.exception("token not drawn", extra={"request_id": seq.request_id})
            live.error = Refusal("internal_error", "The next token could not be chosen.", ours=True)
        return GREEDY

    def _break(self, seq: TokenSequence) -> None:
        log.error("logits are not finite", extra={"request_id": seq.request_id})
        self._live[seq.request_id].error = _NOT_FINITE

    def _look(self, seq: TokenSequence, now: float) -> LiveRequest | None:
        """Look at a sequence's newest token; its request, if it was the last."""
        live = self._live[seq.request_id]
        ended = self._has_ended(live)
        if live.first_token_at is None:
            live.first_token_at = now
            self._counters.count_first_token(seconds=now - live.arrived)
        if not ended:
            return None
        seconds = now - live.first_token_at
        self._counters.count_later_tokens(seq.num_output_tokens - 1, seconds=seconds)
        return live

    def _has_ended(self, live: LiveRequest) -> bool:
        try:
            return live.look()
        except GrammarRefused as refusal:
            live.error = _too_complex(refusal)
        except Exception:  # whatever one request's text does, it must not end the others
            self._fail(live)
        return True

    def _complete(self, ended: list[LiveRequest]) -> list[Completion]:
        """The completions of requests that have ended, decoded all at once."""
        texts = self._tokenizer.decode_batch([live.shown_ids for live in ended]) if ended else []
        return [self._completion(live, text) for live, text in zip(ended, texts, strict=True)]

    def _completion(self, live: LiveRequest, text: str) -> Completion:
        try:
            return live.completion(text, self._tokenizer.bytes_of)
        except Exception:  # as in `_has_ended`
            self._fail(live)
            return live.failure()

    def _fail(self, live: LiveRequest) -> None:
        log.exception("completion failed", extra={"request_id": live.request.request_id})
        live.error = Refusal("internal_error", "The completion could not be read.", ours=True)


def _shared_beginning(prompts: Sequence[list[int]]) -> list[int]:
    for place, tokens in enumerate(zip(*prompts, strict=False)):
        if len(set(tokens)) > 1:
            return prompts[0][:place]
    return min(prompts, key=len, default=[])


def _too_complex(refusal: GrammarRefused) -> Refusal:
    return Refusal("grammar_too_complex", str(refusal))


def _refused(request: Request, refusal: Refusal) -> Completion:
    return Completion(
        request_id=request.request_id,
        token_ids=[],
        text="",
        finish_reason="error",
        prompt_tokens=0,
        cached_tokens=0,
        error=refusal,
    )
