"""A small thread pool whose work may not fail unseen."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec

log = logging.getLogger(__name__)

P = ParamSpec("P")


class Crew:
    """Runs calls on threads.  What one raises is a bug, and ends the process: its leases are
    rescued, and a shard that does it again is found out like any other that kills its worker."""

    def __init__(self, size: int, *, name: str, die: Callable[[str], None]) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._die = die

    def submit(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        self._pool.submit(self._run, lambda: work(*args, **kwargs))

    def stop(self) -> None:
        """Wait for what was submitted."""
        self._pool.shutdown()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            log.exception("a thread's work failed")
            self._die(f"unexpected {type(error).__name__}")
