"""The one look for everybody who waits; the database is a set of finished ids."""

import asyncio
from collections.abc import Callable, Collection
from uuid import UUID, uuid4

from sqlalchemy.exc import OperationalError

from api.waiting import JobWatch

LONG = 20.0  # seconds: no test here waits for so long


class Jobs:
    """Answers looks, and counts them."""

    def __init__(self) -> None:
        self.finished: set[UUID] = set()
        self.looks: list[set[UUID]] = []
        self.failures = 0

    def finished_among(self, job_ids: Collection[UUID]) -> set[UUID]:
        self.looks.append(set(job_ids))
        if self.failures:
            self.failures -= 1
            raise OperationalError("SELECT", {}, Exception("the server is away"))
        return self.finished & set(job_ids)


def watch(jobs: Jobs, *, stopping: Callable[[], bool] = lambda: False) -> JobWatch:
    return JobWatch(jobs.finished_among, stopping=stopping)


def test_all_who_wait_are_looked_up_at_once() -> None:
    jobs, ids = Jobs(), [uuid4() for _ in range(1000)]

    async def wait_for_all() -> None:
        watching = watch(jobs)
        waits = [watching.until_finished(job_id, timeout=LONG) for job_id in ids]
        gathered = asyncio.gather(*waits)
        await asyncio.sleep(0)
        jobs.finished = set(ids)
        await gathered
        assert len(watching) == 0

    asyncio.run(wait_for_all())

    assert jobs.looks[0] == set(ids)
    assert len(jobs.looks) <= 2


def test_who_waits_for_a_job_goes_when_its_end_is_heard_of_and_no_look_finds_it() -> None:
    jobs, job_id, other = Jobs(), uuid4(), uuid4()

    async def wait_and_hear() -> None:
        watching = watch(jobs)
        waits = [watching.until_finished(each, timeout=LONG) for each in (job_id, other)]
        first, second = (asyncio.ensure_future(wait) for wait in waits)
        await asyncio.sleep(0)
        await asyncio.to_thread(watching.hear, job_id)
        await first
        assert not second.done()
        second.cancel()

    asyncio.run(wait_and_hear())

    assert jobs.finished == set()


def test_several_may_wait_for_one_job() -> None:
    jobs, job_id = Jobs(), uuid4()
    jobs.finished = {job_id}

    async def wait_twice() -> None:
        watching = watch(jobs)
        await asyncio.gather(*(watching.until_finished(job_id, timeout=LONG) for _ in range(2)))

    asyncio.run(wait_twice())


def test_a_wait_that_runs_out_returns_and_is_forgotten() -> None:
    async def wait_briefly() -> int:
        watching = watch(Jobs())
        await watching.until_finished(uuid4(), timeout=0.01)
        return len(watching)

    assert asyncio.run(wait_briefly()) == 0


def test_nobody_is_looked_for_when_nobody_waits() -> None:
    jobs = Jobs()

    async def wait_and_leave() -> tuple[int, int]:
        watching = watch(jobs)
        await watching.until_finished(uuid4(), timeout=0.01)
        while any(task is not asyncio.current_task() for task in asyncio.all_tasks()):
            await asyncio.sleep(0.001)  # the watching task ends by itself
        return len(watching), len(jobs.looks)

    waiting, looks = asyncio.run(wait_and_leave())

    assert waiting == 0
    assert looks >= 1


def test_a_second_client_is_watched_for_after_the_first_has_gone() -> None:
    jobs, first, second = Jobs(), uuid4(), uuid4()
    jobs.finished = {first, second}

    async def wait_one_after_another() -> None:
        watching = watch(jobs)
        await watching.until_finished(first, timeout=LONG)
        await watching.until_finished(second, timeout=LONG)

    asyncio.run(asyncio.wait_for(wait_one_after_another(), timeout=LONG / 2))


def test_a_database_that_is_away_is_asked_again() -> None:
    jobs, job_id = Jobs(), uuid4()
    jobs.failures, jobs.finished = 1, {job_id}

    async def wait_through_it() -> None:
        await watch(jobs).until_finished(job_id, timeout=LONG)

    asyncio.run(asyncio.wait_for(wait_through_it(), timeout=LONG / 2))

    assert len(jobs.looks) == 2


def test_a_client_that_leaves_is_forgotten() -> None:
    async def leave() -> int:
        watching = watch(Jobs())
        waiting = asyncio.create_task(watching.until_finished(uuid4(), timeout=LONG))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return len(watching)

    assert asyncio.run(leave()) == 0


def test_everybody_is_let_go_when_the_server_stops() -> None:
    stopping = False

    async def stop() -> None:
        nonlocal stopping
        watching = watch(Jobs(), stopping=lambda: stopping)
        waits = asyncio.gather(*(watching.until_finished(uuid4(), timeout=LONG) for _ in range(3)))
        await asyncio.sleep(0)
        stopping = True
        await asyncio.wait_for(waits, timeout=LONG / 2)

    asyncio.run(stop())
