"""Takes deleted batches apart, a bounded step at a time: their objects, then their rows."""

from itertools import islice

from jobs import deletion
from jobs.database import Sessions
from jobs.deletion import DeletedBatch
from jobs.storage import Storage
from worker.control.deleting import delete

_STEP_OBJECTS = 1000
_STEPS = 10  # of one round, so that the sweeper's other duties are not held up


def purge(sessions: Sessions, storage: Storage) -> None:
    """Go on with whatever has been deleted; what is left is for the next round."""
    with sessions.begin() as session:
        deletion.forget_purged(session)
    for _ in range(_STEPS):
        with sessions() as session:
            batch = deletion.next_deleted(session)
        if batch is None:
            return
        if _delete_objects(storage, batch):
            with sessions.begin() as session:
                deletion.delete_rows(session, batch.job_id)


def _delete_objects(storage: Storage, batch: DeletedBatch) -> bool:
    """True once there is none, or none that the store lets go: those are orphans once the rows are
    gone, and are tried again by their collector."""
    keys = [found.key for found in islice(storage.objects(batch.folder), _STEP_OBJECTS)]
    kept = delete(storage, keys, kept="left to the collector of orphans")
    return len(keys) < _STEP_OBJECTS or len(kept) == len(keys)
