"""Turns a batch's file into request rows and shards, under a lease on the job.

Every window's transaction and the cut itself are fenced by the job's attempt, and object keys
carry it; a new plan first deletes the rows of an earlier one that died.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from uuid import UUID

import psycopg
from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, DOUBLE_PRECISION, INTEGER, TEXT
from sqlalchemy.orm import Session

from jobs import fairness, finishing, job_leases, quotas
from jobs.errors import BatchRefused, TokenLimitExceeded
from jobs.models import JobState, OnInvalidLine
from jobs.results import SegmentDraft, put


@dataclass(frozen=True, slots=True)
class PlanLease:
    """The right to plan one batch, and what its planner must know."""

    job_id: UUID
    attempt: int
    owner: UUID
    tenant_id: UUID
    endpoint: str
    interactive: bool
    on_invalid_line: OnInvalidLine
    storage_key: str
    bucket: str | None
    etag: str | None
    sha256: str  # of the file
    retry_of: UUID | None
    reuse_from: UUID | None
    deaths: int  # of those who had planned it before


@dataclass(slots=True)  # not frozen: to make it would cost three times as much
class RequestRow:
    """`body_digest`, 16 bytes in hex, is equal for equal bodies; None where a line cannot run."""

    index: int
    line: int
    custom_id: str | None
    body_digest: str | None = None


@dataclass(frozen=True, slots=True)
class ShardDraft:
    """A shard whose input object is in S3: `lines` of it from `first_line` on.  `cost` in tokens,
    see jobs/fairness.py; `sha256` of the object, None if it is not to be checked."""

    input_key: str
    lines: int
    cost: int
    prefix_key: str | None
    sha256: str | None = None
    first_line: int = 0


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A request whose custom_id an earlier line has."""

    index: int
    line: int
    custom_id: str
    first_line: int


# Tenants take turns, so that nobody waits until another's thousand files are read.  Each one's go
# in the order in which they may be tried.  For a fresh job that is its creation; one that was given
# up goes behind all that came before it is due again, so that no failing one stops the rest.
_CLAIM = text("""
    WITH next AS MATERIALIZED (
        SELECT j.id, j.tenant_id
          FROM jobs j LEFT JOIN turns t ON t.tenant_id = j.tenant_id
         WHERE j.kind = 'batch' AND j.state IN ('queued', 'validating') AND j.owner IS NULL
           AND j.not_before <= now() AND (j.deaths >= :suspicious) = :careful
           AND EXISTS (SELECT 1 FROM workers w
                        WHERE w.incarnation = :me AND w.beat_until > now() AND NOT w.draining)
         ORDER BY t.planned_at NULLS FIRST, j.not_before, j.id LIMIT 1
           FOR UPDATE OF j SKIP LOCKED
    ),
    turn AS (
        INSERT INTO turns (tenant_id, planned_at) SELECT tenant_id, clock_timestamp() FROM next
            ON CONFLICT (tenant_id) DO UPDATE SET planned_at = excluded.planned_at
    )
    UPDATE jobs j
       SET state = 'validating', owner = :me, attempt = j.attempt + 1
      FROM next, files f
     WHERE j.id = next.id AND f.id = j.input_file_id
    RETURNING j.id AS job_id, j.attempt, j.owner, j.tenant_id, j.endpoint, j.interactive,
              j.on_invalid_line, f.storage_key, f.bucket, f.etag, f.sha256, j.retry_of,
              j.reuse_from, j.deaths
""")

_CLEAR = text("DELETE FROM requests WHERE job_id = :job_id")

_COPY = "COPY requests (job_id, index, line, custom_id, body_digest) FROM STDIN"

_DUPLICATES = text("""
    SELECT index AS at, line, custom_id, first_line
      FROM (SELECT index, line, custom_id,
                   first_value(line) OVER same AS first_line,
                   row_number() OVER same AS place
              FROM requests
             WHERE job_id = :job_id AND custom_id IS NOT NULL
            WINDOW same AS (PARTITION BY custom_id ORDER BY index)) ids
     WHERE place > 1
     ORDER BY index
""").execution_options(yield_per=1000)

_SHARDS_AT_ONCE = 20_000

_ADD_SHARDS = text("""
    INSERT INTO shards (job_id, model, interactive, paused, stamp, cost, prefix_key, input_key,
                        input_sha256, first_line, end_line)
    SELECT :job_id, :model, :interactive, :paused, s.*
      FROM unnest(:stamps, :costs, :prefix_keys, :input_keys, :sha256s, :firsts, :ends) AS s
""").bindparams(
    bindparam("stamps", type_=ARRAY(DOUBLE_PRECISION)),
    bindparam("costs", type_=ARRAY(BIGINT)),
    bindparam("prefix_keys", type_=ARRAY(TEXT)),
    bindparam("input_keys", type_=ARRAY(TEXT)),
    bindparam("sha256s", type_=ARRAY(TEXT)),
    bindparam("firsts", type_=ARRAY(INTEGER)),
    bindparam("ends", type_=ARRAY(INTEGER)),
)

_START = text("""
    UPDATE jobs
       SET state = 'in_progress', owner = NULL, in_progress_at = now(), model = :model,
           total = :total, errors = CAST(:errors AS jsonb),
           reserved_requests = :total, reserved_tokens = :cost
     WHERE id = :job_id
""")

# Not the lease's: the owner may have changed them since.
_WANTED = text("SELECT interactive, paused FROM jobs WHERE id = :job_id")

_MODEL_EXISTS = text("SELECT EXISTS (SELECT 1 FROM models WHERE name = :name)")

_ANALYZE = text("ANALYZE shards")


def claim(session: Session, me: UUID, *, careful: bool = False) -> PlanLease | None:
    """Lease the batch that has waited longest of those that nobody plans: of those that want care,
    or of the others."""
    values = {"me": me, "careful": careful, "suspicious": job_leases.SUSPICIOUS}
    row = session.execute(_CLAIM, values).mappings().one_or_none()
    if row is None:
        return None
    return PlanLease(**{**row, "on_invalid_line": OnInvalidLine(row["on_invalid_line"])})


def start_over(session: Session, lease: PlanLease) -> None:
    """Delete what an earlier plan of this job loaded.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.VALIDATING)
    session.execute(_CLEAR, {"job_id": lease.job_id})


def model_exists(session: Session, name: str) -> bool:
    return bool(session.scalar(_MODEL_EXISTS, {"name": name}))


def load(session: Session, lease: PlanLease, rows: Iterable[RequestRow]) -> None:
    """COPY a window's request rows.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.VALIDATING)
    driver = session.connection().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # the one driver that jobs/database.py opens
    with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
        job_id = str(lease.job_id)  # written out once, not for each row
        for row in rows:
            copy.write_row((job_id, row.index, row.line, row.custom_id, row.body_digest))


def duplicates(session: Session, job_id: UUID) -> Iterator[Duplicate]:
    """Every request whose custom_id stands on an earlier line too, in line order."""
    for row in session.execute(_DUPLICATES, {"job_id": job_id}):
        yield Duplicate(row.at, row.line, row.custom_id, row.first_line)


@dataclass(frozen=True, slots=True)
class Plan:
    """What planning found.  `errors`: JSON or None; `finished`: segments of lines that have their
    result already, of which the first counts where two are of one row."""

    model: str
    total: int
    shards: list[ShardDraft]
    errors: str | None = None
    finished: Iterable[SegmentDraft] = ()


def cut(session: Session, lease: PlanLease, plan: Plan) -> None:
    """Insert the stamped shards and start the job.

    Raises LeaseLost, or BatchRefused where the tenant's quota has no room for it.
    """
    job_leases.hold(session, lease, JobState.VALIDATING)
    for segment in plan.finished:  # before the locks below, for which others wait
        put(session, lease.job_id, segment, shard_id=None, attempt=lease.attempt)
    wanted = session.execute(_WANTED, {"job_id": lease.job_id}).one()
    cost = sum(shard.cost for shard in plan.shards)
    _admit(session, lease, cost)
    start = fairness.reserve(
        session,
        model=plan.model,
        tenant_id=lease.tenant_id,
        cost=cost,
        interactive=wanted.interactive,
    )
    same = {"job_id": lease.job_id, "model": plan.model}
    as_wanted = {"interactive": wanted.interactive, "paused": wanted.paused}
    _add_shards(session, plan.shards, start, same | as_wanted)
    session.execute(_START, same | {"total": plan.total, "cost": cost, "errors": plan.errors})


def _admit(session: Session, lease: PlanLease, cost: int) -> None:
    try:
        quotas.admit_planned(session, tenant_id=lease.tenant_id, job_id=lease.job_id, tokens=cost)
    except TokenLimitExceeded as refusal:
        raise BatchRefused(refusal.code, str(refusal)) from refusal


def _add_shards(
    session: Session, shards: list[ShardDraft], start: fairness.Start, same: dict[str, object]
) -> None:
    """In statements of which none is cut off for the time that it takes."""
    stamps = [start.after(cost) for cost in accumulate((each.cost for each in shards), initial=0)]
    for at in range(0, len(shards), _SHARDS_AT_ONCE):
        some = slice(at, at + _SHARDS_AT_ONCE)
        columns = _columns(shards[some]) | {"stamps": stamps[:-1][some]}
        session.execute(_ADD_SHARDS, same | columns)


def _columns(shards: list[ShardDraft]) -> dict[str, object]:
    return {
        "costs": [shard.cost for shard in shards],
        "prefix_keys": [shard.prefix_key for shard in shards],
        "input_keys": [shard.input_key for shard in shards],
        "sha256s": [shard.sha256 for shard in shards],
        "firsts": [shard.first_line for shard in shards],
        "ends": [shard.first_line + shard.lines for shard in shards],
    }


def fail(session: Session, lease: PlanLease, found: list[dict[str, object]]) -> None:
    """End a batch whose file cannot run.  Raises LeaseLost."""
    job_leases.hold(session, lease, JobState.VALIDATING)
    finishing.fail_validation(session, lease.job_id, found)


def analyze(session: Session) -> None:
    """Tell the planner of queries about the shards just cut: a claim must walk their index."""
    session.execute(_ANALYZE)
