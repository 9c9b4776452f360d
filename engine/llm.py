"""The engine alone, offline: a list of requests in, their completions out in the same order."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Unpack

from engine.config import EngineSettings
from engine.engine import Engine
from engine.loading import load_engine
from engine.requests import Completion, Request


class LLM:
    def __init__(
        self,
        model: str,
        *,
        on_report: Callable[[str], None] = print,
        clock: Callable[[], float] = monotonic,
        **settings: Unpack[EngineSettings],
    ) -> None:
        """The arguments are those of `load_engine`, and so is what is raised."""
        self.engine: Engine = load_engine(model, on_report=on_report, clock=clock, **settings)

    def generate(
        self,
        requests: Sequence[Request],
        *,
        on_completion: Callable[[Completion], None] = lambda completion: None,
    ) -> list[Completion]:
        """Run all requests to their ends.  Their ids must differ.

        on_completion: is told of each one when it ends
        """
        done = {}
        ended = self.engine.add(requests)
        while True:
            for completion in ended:
                done[completion.request_id] = completion
                on_completion(completion)
            if not self.engine.has_work:
                return [done[request.request_id] for request in requests]
            ended = self.engine.step()
