"""Says of each result that is not to be had that it is lost, so that its batch can end."""

import hashlib
import logging

from jobs import lines, lost_results, metrics
from jobs.database import Sessions
from jobs.errors import SegmentDamaged
from jobs.finishing import FinalizeLease
from jobs.lost_results import LostRow
from jobs.models import JobState
from jobs.results import Row, SegmentDraft
from jobs.segment_objects import read_whole
from jobs.storage import Storage

log = logging.getLogger(__name__)

RESULT_LOST = "result_lost"
_MESSAGE = (
    "The object store has lost this request or its answer, or changed them. "
    "Retry the batch to run it again."
)


def write_off(sessions: Sessions, storage: Storage, lease: FinalizeLease) -> None:
    """Replace every segment that is not what was written by one of error lines, and add such lines
    for rows that should have a result and have none.

    Whoever dies on the way has written some of them, each in one transaction.  Raises LeaseLost,
    or StorageUnavailable where S3 does not answer, which proves no loss.
    """
    _replace_damaged(sessions, storage, lease)
    if lease.ends_as is JobState.COMPLETED:  # else they are named as rows that never ran
        _add_missing(sessions, storage, lease)


def _replace_damaged(sessions: Sessions, storage: Storage, lease: FinalizeLease) -> None:
    for segment_id, segment in lost_results.segments(sessions, lease.job_id):
        try:
            read_whole(storage, segment)
        except SegmentDamaged as damage:
            log.error("results are lost: %s", damage, extra={"job_id": str(lease.job_id)})
            _replace(sessions, storage, lease, segment_id)


def _replace(sessions: Sessions, storage: Storage, lease: FinalizeLease, segment_id: int) -> None:
    with sessions() as session:
        lost = lost_results.rows_of(session, lease.job_id, segment_id)
    replacement = _error_lines(storage, lease, lost, name=f"{segment_id}")
    with sessions.begin() as session:
        lost_results.replace(session, lease, segment_id, replacement)
    metrics.RESULTS_LOST.inc(len(lost))


def _add_missing(sessions: Sessions, storage: Storage, lease: FinalizeLease) -> None:
    while True:
        with sessions() as session:
            lost = lost_results.rows_without(session, lease.job_id)
        if not lost:
            return
        log.error("rows have no result", extra={"job_id": str(lease.job_id), "rows": len(lost)})
        addition = _error_lines(storage, lease, lost, name=f"from-{lost[0].index}")
        with sessions.begin() as session:
            lost_results.add(session, lease, addition)
        metrics.RESULTS_LOST.inc(len(lost))


def _error_lines(
    storage: Storage, lease: FinalizeLease, lost: list[LostRow], *, name: str
) -> SegmentDraft:
    data, rows = bytearray(), list[Row]()
    for row in lost:
        line = lines.never_ran(
            lease.job_id, row.index, custom_id=row.custom_id, code=RESULT_LOST, message=_MESSAGE
        )
        rows.append(Row(row.index, False, len(data), len(line)))
        data += line
    folder = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out"
    key = f"{folder}/{RESULT_LOST}-{name}-{lease.attempt}.jsonl"
    storage.put(key, bytes(data))
    return SegmentDraft(key, len(data), hashlib.sha256(data).hexdigest(), rows)
