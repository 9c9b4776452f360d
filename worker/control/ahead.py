"""Calls that go on ahead of whoever uses their results: in order, and so many at a time."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(
    work: Callable[[Item], Result], items: Iterable[Item], *, most: int
) -> Generator[Result, None, None]:
    """Yield `work(item)` for each item, in order, while up to `most` calls are under way.

    `items` is walked on the caller's thread, no further than there are threads: memory holds `most`
    items and their results.  What a call raises is raised in its place, and no further call begins;
    nor does one after `close`, which waits for those under way.
    """
    with ThreadPoolExecutor(most, thread_name_prefix="ahead") as pool:
        under_way = deque[Future[Result]]()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) == most:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
