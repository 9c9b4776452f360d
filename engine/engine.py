"""The engine: requests in, completions out, one step at a time.

It owns all that one device computes.  It must never know jobs, rows, queues or files: what a
request belongs to is its caller's business.  One thread calls it; `steps`, `stats` and `room` may
be read from others.
"""

import logging
from collections.abc import Iterable
from itertools import count
from time import perf_counter

from engine.grammars import GrammarRefused, Grammars
from engine.intake import Intake
from engine.live_request import LiveRequest, seed_of
from engine.model_runner import ModelRunner
from engine.requests import Completion, Refusal, Request
from engine.sampling import GREEDY, Draw
from engine.scheduler import Scheduler
from engine.sequence import Sequence
from engine.shaping import Shaping, shapes_logits
from engine.stats import Counters, EngineStats
from engine.stopping import Stopping
from engine.tokenizer import Tokenizer

log = logging.getLogger(__name__)


class Engine:
    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        *,
        intake: Intake,
        grammars: Grammars,
        tokenizer: Tokenizer,
        max_model_len: int,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._intake = intake
        self._grammars = grammars
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
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
        """Queue the requests, tokenised as one batch.  Returns those refused, as completions."""
        requests = list(requests)
        refused = []
        for request, prompt in zip(requests, self._intake.prompts(requests), strict=True):
            if request.request_id in self._live:
                message = f"A request with the id {request.request_id!r} is running already."
                prompt = Refusal("duplicate_request_id", message, "request_id")
            if isinstance(prompt, Refusal):
                refused.append(_refused(request, prompt))
            else:
                self._queue(request, prompt)
        return refused

    def step(self) -> list[Completion]:
        """Compute one step.  Returns the completions of the requests that ended in it."""
        started = perf_counter()
        batch = self._scheduler.step()
        if not batch.chunks:
            return []
        drawn = self._runner.run(batch, self._draw)
        grown = self._scheduler.record(batch, drawn.tokens)
        for row, found in drawn.logprobs.items():
            self._live[grown[row].request_id].logprobs.append(found)
        ended = [completion for seq in grown if (completion := self._ending(seq))]
        self._scheduler.finish([self._live.pop(each.request_id).seq for each in ended])
        self._counters.count(batch, seconds=perf_counter() - started)
        return ended

    def abort(self, request_ids: Iterable[str]) -> None:
        """Drop requests, running or waiting, without a completion.  Unknown ids are ignored."""
        for request_id in request_ids:
            live = self._live.pop(request_id, None)
            if live is not None:
                self._scheduler.abort(live.seq)

    def _queue(self, request: Request, prompt: list[int]) -> None:
        params = request.params
        left = self._max_model_len - len(prompt)
        seq = Sequence(
            seq_id=next(self._seq_ids),
            request_id=request.request_id,
            token_ids=prompt,
            max_tokens=left if params.max_tokens is None else params.max_tokens,
            max_tokens_given=params.max_tokens is not None,
            priority=request.priority,
            salt=request.salt,
        )
        eos = frozenset() if params.ignore_eos else self._tokenizer.eos_token_ids
        stop_ids = eos.union(params.stop_token_ids)
        stopping = Stopping(
            self._tokenizer.decode, max_tokens=seq.max_tokens, stop_ids=stop_ids, stop=params.stop
        )
        shaping = None
        if shapes_logits(params):
            shaping = Shaping(params, num_prompt_tokens=len(prompt), stop_ids=stop_ids)
        live = LiveRequest(request, seq, stopping, seed_of(request), shaping)
        self._live[request.request_id] = live
        self._scheduler.add(seq)

    def _draw(self, seq: Sequence) -> Draw:
        live = self._live[seq.request_id]
        try:
            return live.draw(self._grammars)
        except GrammarRefused as refusal:
            live.failures.append(_too_complex(refusal))
            return GREEDY

    def _ending(self, seq: Sequence) -> Completion | None:
        live = self._live[seq.request_id]
        try:
            return live.ending(self._tokenizer.bytes_of)
        except GrammarRefused as refusal:
            return live.failure(_too_complex(refusal))
        except Exception:  # whatever one request's text does, it must not end the others
            log.exception("completion failed", extra={"request_id": seq.request_id})
            return live.failure(Refusal("internal_error", "The completion could not be read."))


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
