"""Threads for those who send or compose files: so many at once, of one tenant half of them.

A slow client keeps its thread for as long as it sends; whoever has many of them holds up their own
uploads and nobody else's.
"""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import anyio.to_thread
from anyio import CapacityLimiter

Result = TypeVar("Result")


class Slots:
    def __init__(self, at_once: int) -> None:
        self._all = CapacityLimiter(at_once)
        self._each = max(1, at_once // 2)
        self._tenants = dict[
            UUID, CapacityLimiter
        ]()  # of whoever has sent a file: a few bytes each

    async def run(self, tenant_id: UUID, work: Callable[[], Result]) -> Result:
        """What `work` returns, on a thread, once the tenant and the process have one for it."""
        if tenant_id not in self._tenants:
            self._tenants[tenant_id] = CapacityLimiter(self._each)
        async with self._tenants[tenant_id]:
            return await anyio.to_thread.run_sync(work, limiter=self._all)
