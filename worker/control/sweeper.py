"""The periodic task that ends what is overdue, settles suspects and rings again for what waits.

A loop in every control process, not a job in the queue that it serves.  Each duty is a transaction
of its own, safe beside other sweepers, and is tried again on the next round whatever became of it.
"""

import hashlib
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import orjson

from jobs import fairness, finishing, lines, metrics, rescue, results, waiting, workers
from jobs.database import Sessions
from jobs.doorbell import CONTROL, Doorbell, inference_queue
from jobs.errors import InputDamaged
from jobs.models import JobKind
from jobs.rescue import WORKER_LOST, Suspect
from jobs.results import Row, SegmentDraft
from jobs.shard_inputs import read_lines
from jobs.storage import Storage
from worker.control.purge import purge
from worker.failures import log_failure

log = logging.getLogger(__name__)

_SUSPECT_BACKOFF = timedelta(seconds=30)  # whose input cannot be read, or whose line not written
_REMEMBER_DEAD = timedelta(days=1)


class Sweeper:
    def __init__(self, sessions: Sessions, storage: Storage, doorbell: Doorbell) -> None:
        self._sessions = sessions
        self._storage = storage
        self._doorbell = doorbell

    def sweep(self) -> None:
        """One round of every duty."""
        _try("expire", self._expire)
        _try("hasten", self._hasten)
        _try("settle suspects", self._settle_suspects)
        _try("forget the dead", self._forget_dead)
        _try("purge", self._purge)
        _try("ring", self._ring)

    def _expire(self) -> None:
        with self._sessions.begin() as session:
            expired = finishing.expire_due(session)
        if expired:
            metrics.JOBS_EXPIRED.inc(len(expired))
            log.info("jobs expired", extra={"jobs": len(expired)})

    def _hasten(self) -> None:
        with self._sessions.begin() as session:
            hastened = fairness.hasten(session)
        if hastened:
            log.info("jobs pulled forward for their deadlines", extra={"jobs": hastened})

    def _settle_suspects(self) -> None:
        with self._sessions.begin() as session:
            rescue.cancel_suspects(session)
            suspects = rescue.suspects(session)
        for suspect in suspects:
            about = {"job_id": str(suspect.job_id), "shard_id": suspect.id}
            if not _try("settle a suspect", partial(self._settle, suspect), **about):
                _try("put a suspect off", partial(self._put_off, suspect), **about)

    def _settle(self, suspect: Suspect) -> None:
        if suspect.is_guilty:
            self._answer_worker_lost(suspect)
            return
        with self._sessions.begin() as session:
            (rescue.try_again if suspect.is_one_line else rescue.split)(session, suspect)

    def _put_off(self, suspect: Suspect) -> None:
        # Else the next sweep would begin with the same ones, and come to no others.
        with self._sessions.begin() as session:
            rescue.put_off(session, suspect, by=_SUSPECT_BACKOFF)

    def _answer_worker_lost(self, suspect: Suspect) -> None:
        try:
            index, custom_id = self._only_line(suspect)
        # Whose it is cannot be read any more.
        except (InputDamaged, ValueError, LookupError, TypeError):
            log.exception("a damaged line is given up", extra={"shard_id": suspect.id})
            with self._sessions.begin() as session:
                results.settle_unanswered(session, suspect)
            return
        line = lines.never_ran(
            suspect.job_id,
            index,
            custom_id=custom_id,
            code=WORKER_LOST,
            message="Every worker that ran this request died.",
        )
        key = f"t/{suspect.tenant_id.hex}/b/{suspect.job_id.hex}/out/lost-{suspect.id}.jsonl"
        self._storage.put(key, line)
        segment = SegmentDraft(
            key, len(line), hashlib.sha256(line).hexdigest(), [Row(index, False, 0, len(line))]
        )
        with self._sessions.begin() as session:
            results.flush_lost(session, suspect, segment)
        metrics.POISON.inc()
        log.error("request answered as worker_lost", extra={"job_id": str(suspect.job_id)})

    def _only_line(self, suspect: Suspect) -> tuple[int, str | None]:
        if suspect.kind is JobKind.REQUEST:
            return 0, None
        assert suspect.input_key is not None
        key, sha256 = suspect.input_key, suspect.input_sha256
        row = orjson.loads(read_lines(self._storage, key, sha256=sha256)[suspect.first_line])
        return row["index"], row["custom_id"]

    def _forget_dead(self) -> None:
        with self._sessions.begin() as session:
            workers.forget_dead(session, age=_REMEMBER_DEAD)

    def _purge(self) -> None:
        purge(self._sessions, self._storage)

    def _ring(self) -> None:
        with self._sessions() as session:
            models, control = waiting.models(session), waiting.for_control(session)
        queues = [CONTROL] * control + [inference_queue(model) for model in models]
        for queue in queues:
            if not self._doorbell.ring(queue):
                return  # a broker that does not answer is asked once a round, not once a queue


def _try(name: str, duty: Callable[[], None], **about: object) -> bool:
    """Do one duty, or one suspect's part of it; `about` is what the log names if it fails."""
    try:
        duty()
        return True
    # Whatever it was: the other duties heal what nothing else does, and must come in every round.
    except Exception as error:
        what = f"a duty of the sweep failed, {name}; a later round does it"
        log_failure(log, what, error, **about)
        return False
