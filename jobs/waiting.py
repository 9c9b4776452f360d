"""What a bell could be rung for: asked by the sweeper, so that a lost bell costs seconds."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import job_leases

_MODELS = text("""
    SELECT name FROM models m
     WHERE EXISTS (SELECT 1 FROM shards s
                    WHERE s.model = m.name AND s.state = 'queued' AND NOT s.paused
                      AND s.not_before <= now())
""")

# As they are claimed in jobs/planning.py and jobs/finishing.py.
_PLANNABLE = """
    SELECT 1 FROM jobs
     WHERE kind = 'batch' AND state IN ('queued', 'validating') AND owner IS NULL
       AND not_before <= now()
"""
_FINALIZABLE = """
    SELECT 1 FROM jobs j
     WHERE (kind = 'batch' AND state IN ('in_progress', 'stopping', 'finalizing')
            OR kind = 'request' AND state IN ('stopping', 'finalizing'))
       AND owner IS NULL AND not_before <= now()
       AND NOT EXISTS (SELECT 1 FROM shards s
                        WHERE s.job_id = j.id AND s.state IN ('queued', 'leased', 'suspect'))
"""

_CONTROL = text(f"""
    SELECT EXISTS ({_PLANNABLE})
        OR EXISTS ({_FINALIZABLE})
        OR EXISTS (SELECT 1 FROM deliveries
                    WHERE state = 'pending' AND owner IS NULL AND due_at <= now())
""")

_CARE = text(f"""
    SELECT EXISTS ({_PLANNABLE} AND deaths >= :suspicious)
        OR EXISTS ({_FINALIZABLE} AND deaths >= :suspicious)
""")


def models(session: Session) -> list[str]:
    """The models that have shards to claim."""
    return list(session.scalars(_MODELS))


def for_control(session: Session) -> bool:
    """Whether a batch waits to be planned or finalized, or a webhook to be sent."""
    return bool(session.scalar(_CONTROL))


def for_care(session: Session) -> bool:
    """Whether a job waits to be planned or finalized that processes have died of."""
    return bool(session.scalar(_CARE, {"suspicious": job_leases.SUSPICIOUS}))
