"""The witness looks at the tables after every COMMIT, and says which law was broken."""

from collections.abc import Mapping, Set
from typing import Any

from sqlalchemy import Engine, text

from jobs.models import TERMINAL_STATES

_TERMINAL = frozenset[str](TERMINAL_STATES)
_SETTLED = frozenset({"done", "cancelled", "split"})

# A suspect is on its way back to the line: leased → suspect → queued.
_SHARD_EDGES: dict[str, Set[str]] = {
    "queued": {"leased", "cancelled"},
    "leased": {"queued", "done", "cancelled", "suspect"},
    "suspect": {"queued", "done", "cancelled", "split"},
}
_JOB_EDGES: dict[str, Set[str]] = {
    "queued": {"validating", "stopping"},
    "validating": {"in_progress", "stopping", "failed"},
    "in_progress": {"stopping", "finalizing", "completed", "failed"},
    "stopping": {"finalizing"},
    "finalizing": _TERMINAL,
}
_BORN = {"shards": {"queued"}, "jobs": {"queued", "in_progress"}}

_LOOKS = {
    "jobs": """
        SELECT id, state, attempt, owner, completed, failed, output_file_id, error_file_id FROM jobs
    """,
    "shards": "SELECT id, state, attempt, owner, crashes, deaths_alone FROM shards",
    "results": """
        SELECT job_id::text || '/' || index AS id, segment_id, ok, start, length FROM results
    """,
    "segments": """
        SELECT id, job_id, shard_id, attempt, storage_key, bytes, sha256, ok, failed FROM segments
    """,
    "events": "SELECT id, job_id, type, payload FROM events",
}

# All of them in one statement, and so in one snapshot.
_LOOK = text(
    " UNION ALL ".join(
        f"SELECT '{table}' AS seen, to_jsonb(look) AS row FROM ({look}) look"
        for table, look in _LOOKS.items()
    )
)

Rows = Mapping[Any, Mapping[str, Any]]


class Witness:
    """Knows the last look.  Every fault that it finds is an AssertionError that names the row."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[str, Rows] = {table: {} for table in _LOOKS}

    def forget(self) -> None:
        self._seen = {table: {} for table in _LOOKS}

    def look(self) -> None:
        now = self._read()
        _walks_the_graph("shards", self._seen["shards"], now["shards"], _SHARD_EDGES)
        _walks_the_graph("jobs", self._seen["jobs"], now["jobs"], _JOB_EDGES)
        for table in ("shards", "jobs"):
            _raises_attempts(self._seen[table], now[table])
        _is_left_alone("jobs", _ended(self._seen["jobs"], _TERMINAL), now["jobs"])
        _is_left_alone("shards", _ended(self._seen["shards"], _SETTLED), now["shards"])
        for table in ("results", "segments", "events"):  # append-only
            _is_left_alone(table, self._seen[table], now[table])
        _came_under_a_lease(self._seen["segments"], now["segments"], now["shards"])
        _ends_once(now["jobs"], now["events"])
        _counts_agree(now["segments"], now["results"])
        self._seen = now

    def _read(self) -> dict[str, Rows]:
        read: dict[str, dict[Any, dict[str, Any]]] = {table: {} for table in _LOOKS}
        with self._engine.connect() as connection:
            for table, row in connection.execute(_LOOK):
                read[table][row["id"]] = row
        return dict(read)


def _walks_the_graph(table: str, before: Rows, after: Rows, edges: Mapping[str, Set[str]]) -> None:
    """I11."""
    for key, row in after.items():
        if key not in before:
            assert row["state"] in _BORN[table], f"{table} {key} was born {row['state']}"
            continue
        old, new = before[key]["state"], row["state"]
        known = new == old or new in edges.get(old, ())
        assert known, f"{table} {key} went from {old} to {new}"


def _raises_attempts(before: Rows, after: Rows) -> None:
    """I2: an attempt never falls, and whoever becomes owner has raised it."""
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        assert new["attempt"] >= old["attempt"], f"{key}: an attempt fell"
        if new["owner"] is not None and new["owner"] != old["owner"]:
            assert new["attempt"] > old["attempt"], f"{key}: two owners of one attempt"


def _ended(rows: Rows, states: Set[str]) -> Rows:
    return {key: row for key, row in rows.items() if row["state"] in states}


def _is_left_alone(table: str, before: Rows, after: Rows) -> None:
    """I1 for rows that have ended; what is append-only is so."""
    for key, row in before.items():
        assert after.get(key) == row, f"{table} {key} was written after its end"


def _came_under_a_lease(before: Rows, after: Rows, shards: Rows) -> None:
    """Law 4: whoever wrote a segment just now holds its shard, or has just settled it."""
    for key in after.keys() - before.keys():
        segment = after[key]
        if segment["shard_id"] is None:
            continue  # the planner's
        shard = shards[segment["shard_id"]]
        assert segment["attempt"] == shard["attempt"], f"segment {key} is of a lease that passed on"
        assert shard["state"] in ("leased", "done"), f"segment {key} is of no lease"


def _ends_once(jobs: Rows, events: Rows) -> None:
    """I6: as many terminal events as jobs that have ended, one each."""
    told = sorted(str(event["job_id"]) for event in events.values())
    ended = sorted(str(key) for key in _ended(jobs, _TERMINAL))
    assert told == ended, "jobs that ended and events that tell of it differ"


def _counts_agree(segments: Rows, results: Rows) -> None:
    """I5 as far as rows go: each segment counts the rows that name it."""
    for key, segment in segments.items():
        named = [row["ok"] for row in results.values() if row["segment_id"] == key]
        counted = (named.count(True), named.count(False))
        assert counted == (segment["ok"], segment["failed"]), f"segment {key} counts wrongly"
