"""A drop folder, what is put into it, and how its batches go."""

import orjson
from sqlalchemy import text

from jobs import drops, leases
from jobs.doorbell import Doorbell
from jobs.locations import Location
from jobs.requests import CHAT_COMPLETIONS
from jobs.storage import Storage
from tests.fixtures.work import Work, segment_of
from tests.fixtures.workers import control_hands
from worker.control.finalizer import Finalizer
from worker.control.planner import Planner


def watch_folder(work: Work, folder: Location, *, window: str = "24h") -> None:
    with work.sessions.begin() as session:
        drops.put(
            session,
            tenant_id=work.tenant_id,
            folder=folder,
            endpoint=CHAT_COMPLETIONS,
            window=window,
        )


def batches(work: Work) -> list[str]:
    """The keys of the files of all batches, in order."""
    with work.sessions() as session:
        query = text("""
            SELECT f.storage_key FROM jobs j JOIN files f ON f.id = j.input_file_id
             WHERE j.deleted_at IS NULL ORDER BY 1
        """)
        return list(session.scalars(query))


def line(custom_id: str) -> bytes:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    row = {"custom_id": custom_id, "method": "POST", "url": CHAT_COMPLETIONS, "body": body}
    return orjson.dumps(row) + b"\n"


def fail_with(work: Work, errors: list[dict[str, object]]) -> None:
    with work.sessions.begin() as session:
        session.execute(
            text(
                "UPDATE jobs SET state = 'failed', finished_at = now(), errors = :errors"
                " WHERE finished_at IS NULL"
            ),
            {"errors": orjson.dumps(errors).decode()},
        )


class Run:
    """Plans, answers and finalizes the batch that waits: rows that are not `ok` are refused."""

    def __init__(self, work: Work, storage: Storage, broker_url: str) -> None:
        hands, doorbell = control_hands(work), Doorbell(broker_url)
        self._work, self._storage = work, storage
        self._planner = Planner(work.sessions, storage, doorbell, secrets=work.secrets, hands=hands)
        self._finalizer = Finalizer(work.sessions, storage, hands)

    def __call__(self, *ok: bool) -> None:
        self.answer(*ok)
        self.finalize()

    def answer(self, *ok: bool) -> None:
        self._planner.plan_next()
        (lease,) = self._work.claim(self._work.add_worker())
        for good in (True, False):
            rows = [index for index, each in enumerate(ok) if each is good]
            if rows:
                segment = segment_of(lease.job_id, rows, self._storage, ok=good)
                self._work.flush(lease, segment)
        with self._work.sessions.begin() as session:
            leases.complete(session, lease)

    def finalize(self) -> None:
        assert self._finalizer.finalize_next()
