"""What became of every shard and job, step by step, written down by triggers of the tests' own.

The end state of a table cannot show that nothing went backwards on the way.
"""

from tests.fixtures.fault_stack import FaultStack

_RECORD = """
CREATE TABLE IF NOT EXISTS history (
    seq bigint GENERATED ALWAYS AS IDENTITY, kind text, row_id text,
    old_state text, new_state text, old_attempt int, new_attempt int
);
CREATE OR REPLACE FUNCTION record_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO history (kind, row_id, old_state, new_state, old_attempt, new_attempt)
    VALUES (TG_TABLE_NAME, NEW.id::text,
            CASE WHEN TG_OP = 'UPDATE' THEN OLD.state::text END, NEW.state::text,
            CASE WHEN TG_OP = 'UPDATE' THEN OLD.attempt END, NEW.attempt);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER record_step AFTER INSERT OR UPDATE ON shards
    FOR EACH ROW EXECUTE FUNCTION record_step();
CREATE OR REPLACE TRIGGER record_step AFTER INSERT OR UPDATE ON jobs
    FOR EACH ROW EXECUTE FUNCTION record_step();

CREATE TABLE IF NOT EXISTS late_segments (segment_id bigint, job_state text);
CREATE OR REPLACE FUNCTION record_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO late_segments
    SELECT NEW.id, state FROM jobs
     WHERE id = NEW.job_id AND (state = 'finalizing' OR finished_at IS NOT NULL);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER record_late AFTER INSERT ON segments
    FOR EACH ROW EXECUTE FUNCTION record_late();

CREATE TABLE IF NOT EXISTS thefts (shard_id bigint, attempt int, owner uuid);
CREATE OR REPLACE FUNCTION record_theft() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO thefts
    SELECT OLD.id, OLD.attempt, incarnation FROM workers
     WHERE incarnation = OLD.owner AND beat_until > now();
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER record_theft AFTER UPDATE ON shards
    FOR EACH ROW WHEN (NEW.crashes > OLD.crashes) EXECUTE FUNCTION record_theft();
"""

# As docs/architecture.md draws them; a row may also change and keep its state.
SHARD_STEPS = {
    ("queued", "leased"),
    ("queued", "cancelled"),
    ("leased", "done"),
    ("leased", "queued"),
    ("leased", "suspect"),
    ("leased", "cancelled"),
    ("suspect", "split"),
    ("suspect", "queued"),
    ("suspect", "done"),
    ("suspect", "cancelled"),
}
JOB_STEPS = {
    ("queued", "validating"),
    ("queued", "stopping"),
    ("validating", "in_progress"),
    ("validating", "failed"),
    ("validating", "stopping"),
    ("in_progress", "stopping"),
    ("in_progress", "finalizing"),
    ("in_progress", "completed"),
    ("in_progress", "failed"),
    ("stopping", "finalizing"),
    ("finalizing", "completed"),
    ("finalizing", "cancelled"),
    ("finalizing", "expired"),
    ("finalizing", "failed"),
}
_TERMINAL = {
    "shards": {"done", "cancelled", "split"},
    "jobs": {"completed", "failed", "cancelled", "expired"},
}


def record(stack: FaultStack) -> None:
    """From now on every step is written down."""
    stack.run(_RECORD)


def check(stack: FaultStack) -> None:
    """I1, I2 and I11 over all that has happened, and that no living worker was robbed."""
    steps = stack.rows(
        "SELECT kind, row_id, old_state, new_state, old_attempt, new_attempt FROM history"
        " WHERE old_state IS NOT NULL ORDER BY seq"
    )
    assert steps
    for kind, row_id, old, new, old_attempt, new_attempt in steps:
        step = f"{kind} {row_id}: {old} at {old_attempt} to {new} at {new_attempt}"
        drawn = SHARD_STEPS if kind == "shards" else JOB_STEPS
        assert old == new or (old, new) in drawn, f"I11, {step}"
        assert old == new or old not in _TERMINAL[kind], f"I1, {step}"
        assert new_attempt >= old_attempt, f"I2, {step}"
        if kind == "shards":
            claimed = (old, new) == ("queued", "leased")
            assert new_attempt == old_attempt + claimed, f"I2, {step}"
    assert stack.rows("SELECT * FROM late_segments") == [], "I1: results after the end"
    assert stack.rows("SELECT * FROM thefts") == [], "shards rescued from the living"
