"""Several completions of one prompt: as many requests, whose prompts lie in the same blocks."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

from engine.requests import Request


def choices(request: Request, count: int) -> Iterator[Request]:
    """Yield the request itself, and `count` - 1 more that differ from it in id and seed alone.

    The first is the request, so that asking for more choices changes none of those that come
    without asking.  Without a seed each choice's own id decides, as it does for any request.
    """
    yield request
    for index in range(1, count):
        params = request.params
        if params.seed is not None:
            params = replace(params, seed=_seed(params.seed, index))
        yield replace(request, request_id=f"{request.request_id}/{index}", params=params)


def _seed(seed: int, index: int) -> int:
    name = f"{seed} {index}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest())
