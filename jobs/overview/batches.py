"""The batches: those that are open, and the last to finish."""

from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.models import JobState
from jobs.overview.views import BatchView, ControlView

_LISTED_BATCHES = 30  # of either sort

# Of an open batch the segments are summed; a finished one's totals are frozen on its row.
_BATCHES = text("""
    WITH listed AS (
        (SELECT * FROM jobs WHERE kind = 'batch' AND finished_at IS NULL
          ORDER BY created_at LIMIT :batches)
        UNION ALL
        (SELECT * FROM jobs WHERE kind = 'batch' AND finished_at IS NOT NULL AND deleted_at IS NULL
          ORDER BY finished_at DESC LIMIT :batches)
    )
    SELECT j.id, t.name AS tenant, j.state, j.model, j.interactive, j.created_at, j.total,
           CASE j.state WHEN 'failed' THEN j.errors->0->>'message' END AS fault,
           CASE j.state WHEN 'failed' THEN (j.errors->0->>'line')::int END AS fault_line,
           extract(epoch FROM coalesce(j.finished_at, now()) - j.created_at)::float8 AS elapsed,
           j.paused AND j.finished_at IS NULL AS paused,
           coalesce(s.last_minute / greatest(1, least(60,
             extract(epoch FROM now() - j.in_progress_at))), 0)::float8 AS rows_per_second,
           coalesce(s.ok, j.completed)::bigint AS ok,
           coalesce(s.failed, j.failed)::bigint AS failed,
           coalesce(s.input_tokens, j.input_tokens)::bigint AS input_tokens,
           coalesce(s.cached_tokens, j.cached_tokens)::bigint AS cached_tokens,
           coalesce(s.output_tokens, j.output_tokens)::bigint AS output_tokens
      FROM listed j
      JOIN tenants t ON t.id = j.tenant_id
      LEFT JOIN LATERAL (
        SELECT sum(ok) AS ok, sum(failed) AS failed, sum(input_tokens) AS input_tokens,
               sum(cached_tokens) AS cached_tokens, sum(output_tokens) AS output_tokens,
               sum(ok + failed) FILTER (WHERE created_at > now() - interval '1 minute')
                 AS last_minute
          FROM segments WHERE job_id = j.id
      ) s ON j.finished_at IS NULL
     ORDER BY j.finished_at DESC NULLS FIRST, j.created_at
""")


def list_batches(session: Session) -> Iterator[BatchView]:
    for row in session.execute(_BATCHES, {"batches": _LISTED_BATCHES}).mappings():
        yield BatchView(**dict(row) | {"state": JobState(row["state"])})


# The index jobs_open holds each state in the order of creation.  Few batches finalize at one time.
_CONTROL = text("""
    SELECT coalesce(extract(epoch FROM now() - least(
             (SELECT min(created_at) FROM jobs WHERE kind = 'batch' AND state = 'queued'),
             (SELECT min(created_at) FROM jobs WHERE kind = 'batch' AND state = 'validating')
           )), 0)::float8 AS planning,
           coalesce(extract(epoch FROM now() - min(finalizing_at)), 0)::float8 AS finalizing
      FROM (SELECT finalizing_at FROM jobs
             WHERE kind = 'batch' AND state = 'finalizing' LIMIT :finalizing) begun
""")
_COUNTED_FINALIZING = 1_000


def look_at_control(session: Session) -> ControlView:
    row = session.execute(_CONTROL, {"finalizing": _COUNTED_FINALIZING}).mappings().one()
    return ControlView(**row)
