"""Looks names up within a time limit.

The C library's own limit cannot be set: a name whose servers say nothing holds its caller for half
a minute and more, and cannot be called off.  So each is asked for on a thread of its own, and who
has waited long enough goes away.  Of such threads there are only so many, however many names hang.
"""

import socket
import threading
import time
from concurrent.futures import Future


class NotFoundInTime(Exception):
    pass


class Resolver:
    """Safe to share between threads; one for the process."""

    def __init__(self, threads: int) -> None:
        """`threads`: how many names may be asked for at once.  While all of them hang, no other
        name is found either."""
        self._free = threading.Semaphore(threads)

    def addresses(self, host: str, port: int, *, seconds: float) -> list[str]:
        """All addresses of a host.  Raises what `getaddrinfo` raises, or NotFoundInTime."""
        deadline, found = time.monotonic() + seconds, Future[list[str]]()
        if not self._free.acquire(timeout=seconds):
            raise NotFoundInTime
        # A daemon, so that a name that hangs keeps no process from ending.
        asking = threading.Thread(
            target=self._ask, args=[host, port, found], name="resolver", daemon=True
        )
        asking.start()
        try:
            return found.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise NotFoundInTime from None

    def _ask(self, host: str, port: int, found: "Future[list[str]]") -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except Exception as error:  # it is the caller's
            found.set_exception(error)
        else:
            found.set_result([str(answer[4][0]) for answer in answers])
        finally:
            self._free.release()
