"""Says of each result that S3 does not give back that it is lost, so that its batch can end."""

import hashlib
import logging

from jobs import lines, lost_results, metrics
from jobs.database import Sessions
from jobs.errors import SegmentDamaged
from jobs.finishing import FinalizeLease
from jobs.lost_results import LostRow
from jobs.results import Row, SegmentDraft
from jobs.segment_objects import read_whole
from jobs.storage import Storage

log = logging.getLogger(__name__)

RESULT_LOST = "result_lost"
_MESSAGE = (
    "This request was answered, and the object store has lost the answer or changed it. "
    "Retry the batch to run it again."
)


def write_off(sessions: Sessions, storage: Storage, lease: FinalizeLease) -> None:
    """Replace every segment that is not what was written by one of error lines.

    Whoever dies on the way has replaced some of them, each in one transaction.  Raises LeaseLost,
    or StorageUnavailable where S3 does not answer, which proves no loss.
    """
    for segment_id, segment in lost_results.segments(sessions, lease.job_id):
        try:
            read_whole(storage, segment)
        except SegmentDamaged as damage:
            log.error("results are lost: %s", damage, extra={"job_id": str(lease.job_id)})
            _replace(sessions, storage, lease, segment_id)


def _replace(sessions: Sessions, storage: Storage, lease: FinalizeLease, segment_id: int) -> None:
    with sessions() as session:
        lost = lost_results.rows_of(session, lease.job_id, segment_id)
    replacement = _error_lines(storage, lease, segment_id, lost)
    with sessions.begin() as session:
        lost_results.replace(session, lease, segment_id, replacement)
    metrics.RESULTS_LOST.inc(len(lost))


def _error_lines(
    storage: Storage, lease: FinalizeLease, segment_id: int, lost: list[LostRow]
) -> SegmentDraft:
    data, rows = bytearray(), list[Row]()
    for row in lost:
        line = lines.never_ran(
            lease.job_id, row.index, custom_id=row.custom_id, code=RESULT_LOST, message=_MESSAGE
        )
        rows.append(Row(row.index, False, len(data), len(line)))
        data += line
    folder = f"t/{lease.tenant_id.hex}/b/{lease.job_id.hex}/out"
    key = f"{folder}/{RESULT_LOST}-{segment_id}-{lease.attempt}.jsonl"
    storage.put(key, bytes(data))
    return SegmentDraft(key, len(data), hashlib.sha256(data).hexdigest(), rows)
