"""The processes, and what their last beats said of their engines."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs.models import WorkerKind
from jobs.overview.views import WorkerView

_LISTED_WORKERS = 200

# A worker that ended as it should leaves at once; one that fell silent is shown for a minute.
_WORKERS = text("""
    SELECT incarnation, kind, model, host, pid, draining, stats, progress AS steps,
           beat_until > now() AS alive,
           extract(epoch FROM now() - (beat_until - :beat_ttl))::float8 AS beat_age,
           extract(epoch FROM now() - started_at)::float8 AS uptime
      FROM workers
     WHERE beat_until > now()
        OR beat_until > now() - interval '1 minute' AND NOT draining
     ORDER BY kind DESC, model, started_at
     LIMIT :workers
""")


def list_workers(session: Session, beat_ttl: timedelta) -> list[WorkerView]:
    rows = session.execute(_WORKERS, {"beat_ttl": beat_ttl, "workers": _LISTED_WORKERS}).mappings()
    return [_worker(dict(row)) for row in rows]


def _worker(row: dict[str, Any]) -> WorkerView:
    stats = row.pop("stats")
    return WorkerView(
        **row | {"kind": WorkerKind(row["kind"])},
        running=_count(stats, "running"),
        waiting=_count(stats, "waiting"),
        kv_blocks_used=_count(stats, "kv_blocks_used"),
        kv_blocks_total=_count(stats, "kv_blocks_total"),
        output_tokens_per_second=_number(stats, "output_tokens_per_second"),
        prompt_tokens_per_second=_number(stats, "prompt_tokens_per_second"),
        prefix_hit_rate=_number(stats, "prefix_hit_rate"),
        cached_tokens=_count(stats, "cached_tokens"),
        prefill_tokens_logical=_count(stats, "prefill_tokens_logical"),
    )


def _number(stats: Mapping[str, Any], name: str) -> float | None:
    """Stats come from another version's worker too: what is not a number is not known."""
    value = stats.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return max(0.0, float(value))


def _count(stats: Mapping[str, Any], name: str) -> int | None:
    number = _number(stats, name)
    return None if number is None else int(number)
