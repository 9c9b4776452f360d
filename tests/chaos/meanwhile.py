"""Something that goes on on another thread while a test does something else."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(act: Callable[[], object], *, pause: float = 0.0) -> Iterator[None]:
    """Do it again and again, `pause` seconds apart, until the `with` ends."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(pause):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
