"""How a job ends: stopped early or run out, finalized by one winner, terminal once.

A cancel or an expiry only says how the job is to end: queued shards become cancelled, workers hand
back the leased ones, and finalizing begins when none is open.  Locks go in the order jobs, shards.
"""

from dataclasses import dataclass
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import events, fairness, job_leases
from jobs.errors import LeaseLost, NotAllowedNow, NotFound
from jobs.models import JobKind, JobState


@dataclass(frozen=True, slots=True)
class FinalizeLease:
    """The right to write a job's files and end it.  `planned`: it reached in_progress; `overdue`:
    some of its results cannot be read for an hour; `deaths`: of those who had it before."""

    job_id: UUID
    attempt: int
    owner: UUID
    tenant_id: UUID
    kind: JobKind
    ends_as: JobState
    total: int
    planned: bool
    overdue: bool
    deaths: int
    output_expires_after: int | None
    output_prefix: str | None


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file that lies in S3 and is not yet a row."""

    id: UUID
    filename: str
    storage_key: str
    bytes: int
    sha256: str
    lines: int
    bucket: str | None = None  # a tenant's, and then
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """A job's result rows, counted from its segments and from the rows themselves."""

    completed: int
    failed: int
    row_completed: int
    row_failed: int

    @property
    def agrees(self) -> bool:
        return (self.completed, self.failed) == (self.row_completed, self.row_failed)


_LOCK = text("""
    SELECT state, ends_as FROM jobs
     WHERE id = :job_id AND tenant_id = :tenant_id AND kind = :kind AND deleted_at IS NULL
       FOR UPDATE
""")

_STOP = text("""
    UPDATE jobs
       SET state = 'stopping', ends_as = CAST(:ends_as AS job_state), owner = NULL,
           cancelling_at = CASE WHEN CAST(:ends_as AS job_state) = 'cancelled' THEN now() END
     WHERE id = :job_id
    RETURNING tenant_id
""")

_CANCEL_QUEUED = text("""
    WITH cancelled AS (
        UPDATE shards SET state = 'cancelled' WHERE job_id = :job_id AND state = 'queued'
        RETURNING model, cost, interactive
    )
    SELECT model, sum(cost)::bigint AS cost FROM cancelled WHERE NOT interactive GROUP BY model
""")

_EXPIRED = text("""
    SELECT id, model FROM jobs
     WHERE state IN ('queued', 'validating', 'in_progress') AND expires_at <= now()
     ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED
""")

_KEEP = text("SELECT 1 FROM jobs WHERE id = :job_id FOR KEY SHARE")

_HOLD_RUNNING = text("SELECT 1 FROM jobs WHERE id = :job_id AND state = 'in_progress' FOR UPDATE")

# One winner: the row's lock is skipped by the others, and the state is re-checked under it.
# A single request's job is finished by its worker, so only a stopping one is begun here.
# Tenants take turns, and each one's jobs go by not_before, as in planning.
_BEGIN = text("""
    WITH ripe AS MATERIALIZED (
        SELECT j.id, j.tenant_id FROM jobs j LEFT JOIN turns t ON t.tenant_id = j.tenant_id
         WHERE j.owner IS NULL AND j.not_before <= now()
           AND (j.deaths >= :suspicious) = :careful
           AND (j.kind = 'batch' AND j.state IN ('in_progress', 'stopping', 'finalizing')
                OR j.kind = 'request' AND j.state IN ('stopping', 'finalizing'))
           AND NOT EXISTS (SELECT 1 FROM shards s
                            WHERE s.job_id = j.id AND s.state IN ('queued', 'leased', 'suspect'))
           AND EXISTS (SELECT 1 FROM workers w
                        WHERE w.incarnation = :me AND w.beat_until > now() AND NOT w.draining)
         ORDER BY t.finalized_at NULLS FIRST, j.not_before, j.id LIMIT 1
           FOR UPDATE OF j SKIP LOCKED
    ),
    turn AS (
        INSERT INTO turns (tenant_id, finalized_at) SELECT tenant_id, clock_timestamp() FROM ripe
            ON CONFLICT (tenant_id) DO UPDATE SET finalized_at = excluded.finalized_at
    )
    UPDATE jobs j
       SET state = 'finalizing', owner = :me, attempt = j.attempt + 1,
           finalizing_at = coalesce(finalizing_at, now())
      FROM ripe
     WHERE j.id = ripe.id
    RETURNING j.id AS job_id, j.attempt, j.owner, j.tenant_id, j.kind,
              coalesce(j.ends_as, 'completed') AS ends_as, j.total,
              j.in_progress_at IS NOT NULL AS planned,
              coalesce(j.damaged_since < now() - interval '1 hour', false) AS overdue, j.deaths,
              j.output_expires_after, j.output_prefix
""")

_NOTE_DAMAGE = text("""
    UPDATE jobs SET damaged_since = now()
     WHERE id = :job_id AND owner = :owner AND attempt = :attempt AND damaged_since IS NULL
""")

_RIPE = text("""
    SELECT NOT EXISTS (SELECT 1 FROM shards
                        WHERE job_id = :job_id AND state IN ('queued', 'leased', 'suspect'))
""")

_TALLY = text("""
    SELECT coalesce(sum(ok), 0) AS completed, coalesce(sum(failed), 0) AS failed,
           (SELECT count(*) FROM results WHERE job_id = :job_id AND ok) AS row_completed,
           (SELECT count(*) FROM results WHERE job_id = :job_id AND NOT ok) AS row_failed
      FROM segments WHERE job_id = :job_id
""")

_ADD_FILE = text("""
    INSERT INTO files (id, tenant_id, filename, purpose, bytes, sha256, lines, storage_key,
                       bucket, etag, expires_at)
    VALUES (:id, :tenant_id, :filename, 'batch_output', :bytes, :sha256, :lines, :storage_key,
            :bucket, :etag, now() + make_interval(secs => CAST(:expires_after AS integer)))
""")

_END = text("""
    UPDATE jobs
       SET state = :state, owner = NULL, finished_at = now(),
           completed = sums.completed, failed = sums.failed, input_tokens = sums.input_tokens,
           cached_tokens = sums.cached_tokens, output_tokens = sums.output_tokens,
           output_file_id = :output_file_id, error_file_id = :error_file_id,
           errors = coalesce(CAST(:errors AS jsonb), errors)
      FROM (SELECT coalesce(sum(ok), 0) AS completed,
                   coalesce(sum(failed), 0) AS failed,
                   coalesce(sum(input_tokens), 0) AS input_tokens,
                   coalesce(sum(cached_tokens), 0) AS cached_tokens,
                   coalesce(sum(output_tokens), 0) AS output_tokens
              FROM segments WHERE job_id = :job_id) sums
     WHERE id = :job_id AND finished_at IS NULL
    RETURNING kind, webhook_url
""")

_REQUEST_OK = text("SELECT ok FROM results WHERE job_id = :job_id AND index = 0")


def cancel(session: Session, *, tenant_id: UUID, job_id: UUID, kind: JobKind) -> None:
    """Stop a job; what has finished is delivered.  A second cancel changes nothing.

    Raises NotFound, or NotAllowedNow when it is finalizing or has ended.
    """
    values = {"job_id": job_id, "tenant_id": tenant_id, "kind": kind}
    job = session.execute(_LOCK, values).one_or_none()
    if job is None:
        raise NotFound(f"There is no {kind.noun} with this id.")
    match JobState(job.state):
        case JobState.STOPPING | JobState.FINALIZING if job.ends_as == JobState.CANCELLED:
            return
        case JobState.QUEUED | JobState.VALIDATING | JobState.IN_PROGRESS:
            _stop(session, job_id, JobState.CANCELLED)
        case state:
            raise NotAllowedNow(f"This {kind.noun} is {state} and can no longer be cancelled.")


def expire_due(session: Session) -> list[UUID]:
    """Stop the jobs whose window has passed, at most 100 of them."""
    due = session.execute(_EXPIRED).all()
    for job in sorted(due, key=lambda job: job.model or ""):  # as others lock the models' clocks
        _stop(session, job.id, JobState.EXPIRED)
    return [job.id for job in due]


def _stop(session: Session, job_id: UUID, ends_as: JobState) -> None:
    tenant_id = session.scalars(_STOP, {"job_id": job_id, "ends_as": ends_as}).one()
    for never_run in session.execute(_CANCEL_QUEUED, {"job_id": job_id}):
        fairness.refund(session, never_run.model, tenant_id, never_run.cost)


def keep(session: Session, job_id: UUID) -> None:
    """Take the lock on the job that the foreign keys of results will ask for, before any shard's:
    locks go in the order jobs, shards."""
    session.execute(_KEEP, {"job_id": job_id})


def hold_running(session: Session, job_id: UUID) -> None:
    """Lock the job to the end of the transaction.  Raises LeaseLost unless it is in progress."""
    if session.execute(_HOLD_RUNNING, {"job_id": job_id}).first() is None:
        raise LeaseLost(f"job {job_id} is not in progress")


def is_ripe(session: Session, job_id: UUID) -> bool:
    """Whether the job has no open shard left, as this transaction sees it.

    Two that settle the last two shards at once may both see the other's; the sweeper begins then.
    """
    return bool(session.scalar(_RIPE, {"job_id": job_id}))


def begin(session: Session, me: UUID, *, careful: bool = False) -> FinalizeLease | None:
    """Lease a job whose shards have all settled, or that a dead finalizer left: one of those that
    want care, or of the others.  One winner."""
    values = {"me": me, "careful": careful, "suspicious": job_leases.SUSPICIOUS}
    row = session.execute(_BEGIN, values).mappings().one_or_none()
    if row is None:
        return None
    kinds = {"kind": JobKind(row["kind"]), "ends_as": JobState(row["ends_as"])}
    return FinalizeLease(**{**row, **kinds})


def note_damage(session: Session, lease: FinalizeLease) -> None:
    """Remember since when results of the job cannot be read."""
    values = {"job_id": lease.job_id, "owner": lease.owner, "attempt": lease.attempt}
    session.execute(_NOTE_DAMAGE, values)


def tally(session: Session, job_id: UUID) -> Tally:
    """The two counts that must agree before the job may end (law 2)."""
    return Tally(**session.execute(_TALLY, {"job_id": job_id}).mappings().one())


def finish(
    session: Session,
    lease: FinalizeLease,
    *,
    output: FileDraft | None,
    errors: FileDraft | None,
) -> None:
    """End a finalized job: its files, frozen totals, event and delivery.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.FINALIZING)
    for draft in (output, errors):
        if draft is not None:
            _add_file(session, lease, draft)
    _end(session, lease.job_id, lease.ends_as, output=output, errors=errors)


def give_up(session: Session, lease: FinalizeLease, found: list[dict[str, object]]) -> None:
    """End a job that cannot be finalized, without its files.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.FINALIZING)
    _end(session, lease.job_id, JobState.FAILED, found=found)


def finish_request(session: Session, job_id: UUID) -> None:
    """End a single request's job by its result row; the caller holds the job's row."""
    ok = session.scalar(_REQUEST_OK, {"job_id": job_id})
    _end(session, job_id, JobState.COMPLETED if ok else JobState.FAILED)


def fail_validation(session: Session, job_id: UUID, found: list[dict[str, object]]) -> None:
    """End a batch whose file cannot run; the caller holds its planning lease."""
    _end(session, job_id, JobState.FAILED, found=found)


def _add_file(session: Session, lease: FinalizeLease, draft: FileDraft) -> None:
    session.execute(
        _ADD_FILE,
        {
            "id": draft.id,
            "tenant_id": lease.tenant_id,
            "filename": draft.filename,
            "bytes": draft.bytes,
            "sha256": draft.sha256,
            "lines": draft.lines,
            "storage_key": draft.storage_key,
            "bucket": draft.bucket,
            "etag": draft.etag,
            "expires_after": lease.output_expires_after,
        },
    )


def _end(
    session: Session,
    job_id: UUID,
    state: JobState,
    *,
    output: FileDraft | None = None,
    errors: FileDraft | None = None,
    found: list[dict[str, object]] | None = None,
) -> None:
    ended = session.execute(
        _END,
        {
            "job_id": job_id,
            "state": state,
            "output_file_id": output and output.id,
            "error_file_id": errors and errors.id,
            "errors": found and orjson.dumps(found).decode(),
        },
    ).one()
    events.add(session, job_id, JobKind(ended.kind), state=state, webhook_url=ended.webhook_url)
