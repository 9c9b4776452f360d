"""Slow uploads of one tenant leave threads to the others."""

from threading import Event, Semaphore
from uuid import uuid4

import anyio
import anyio.to_thread

from api.slots import Slots


def test_whoever_sends_slowly_holds_up_nobody_else() -> None:
    slots, begun, over = Slots(4), Semaphore(0), Event()
    slow, other = uuid4(), uuid4()

    def send_slowly() -> None:
        begun.release()
        over.wait()

    async def scene() -> str:
        async with anyio.create_task_group() as sending:
            for _ in range(9):
                sending.start_soon(slots.run, slow, send_slowly)
            for _ in range(2):
                await anyio.to_thread.run_sync(begun.acquire)
            answer = await slots.run(other, lambda: "stored")
            over.set()
        return answer

    assert anyio.run(scene) == "stored"


def test_all_that_wait_get_their_turn() -> None:
    slots, tenant, done = Slots(1), uuid4(), list[int]()

    async def scene() -> None:
        async with anyio.create_task_group() as sending:
            for number in range(20):
                sending.start_soon(slots.run, tenant, lambda number=number: done.append(number))

    anyio.run(scene)

    assert sorted(done) == list(range(20))
