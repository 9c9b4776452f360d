"""Does to a stack what a schedule says, on time, and undoes what ends by itself."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from redis.exceptions import RedisError
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from tests.chaos.schedule import Fault, Step
from tests.fixtures.fault_stack import FaultStack
from tests.fixtures.toxic_proxy import Kind, Toxic

_AFTER = 200  # bytes of an answer that still come: its head, and the middle of its body

# SQLSTATE 53100, as from a server whose disk is full, for whatever adds to a job's tables.
_FILL = """
CREATE OR REPLACE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
END $$;
CREATE OR REPLACE TRIGGER disk_is_full BEFORE INSERT ON results EXECUTE FUNCTION disk_is_full();
CREATE OR REPLACE TRIGGER disk_is_full BEFORE INSERT ON files EXECUTE FUNCTION disk_is_full();
CREATE OR REPLACE TRIGGER disk_is_full BEFORE INSERT OR UPDATE ON shards
    EXECUTE FUNCTION disk_is_full();
"""
_EMPTY = "; ".join(
    f"DROP TRIGGER IF EXISTS disk_is_full ON {table}" for table in ("results", "files", "shards")
)

# A dead worker's shard is given back, and the transaction then waits for a lock before it commits.
_BAR = """
CREATE OR REPLACE FUNCTION wait_at_the_bar() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(34); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER rescue_waits AFTER UPDATE ON shards
    FOR EACH ROW WHEN (NEW.crashes > OLD.crashes) EXECUTE FUNCTION wait_at_the_bar();
"""
_UNBAR = "DROP TRIGGER IF EXISTS rescue_waits ON shards"
RESCUES_AT_THE_BAR = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 34 AND NOT granted"
)

CUT_POSTGRES_CLIENTS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'gristmill' AND random() < 0.5"
)


def run(stack: FaultStack, steps: Sequence[Step]) -> None:
    """Returns when the last fault has ended."""
    started = time.monotonic()
    threads = list[threading.Thread]()
    for step in steps:
        time.sleep(max(0.0, started + step.at - time.monotonic()))
        threads.append(_begin(stack, step))
    for thread in threads:
        thread.join()


@contextmanager
def full_database(stack: FaultStack) -> Iterator[None]:
    """Postgres has no space left for results, files and states, while the `with` lasts."""
    _unless_away(lambda: stack.run(_FILL))
    try:
        yield
    finally:
        _insist(lambda: stack.run(_EMPTY))


@contextmanager
def barred_rescues(stack: FaultStack) -> Iterator[None]:
    """While the `with` lasts no rescue commits, until Postgres restarts and forgets the bar."""
    stack.run(_BAR)
    engine = create_engine(stack.facts.database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as holder:
        holder.execute(text("SELECT pg_advisory_lock(34)"))
        try:
            yield
        finally:
            holder.invalidate()
    engine.dispose()
    _insist(lambda: stack.run(_UNBAR))


def _begin(stack: FaultStack, step: Step) -> threading.Thread:
    """Do it; what lasts is ended by the thread, that others may come meanwhile."""
    with ExitStack() as entered:
        entered.enter_context(_ACTS[step.fault](stack, step.target) or nullcontext())
        until = entered.pop_all()
    thread = threading.Thread(target=_end_after, args=[step.lasts, until])
    thread.start()
    return thread


def _kill(stack: FaultStack, name: str) -> None:
    stack.kill(name)


def _cut_redis_clients(stack: FaultStack, _target: str) -> None:
    _unless_away(lambda: stack.broker.client_kill_filter(_type="normal"))


def _flush_redis(stack: FaultStack, _target: str) -> None:
    _unless_away(stack.broker.flushall)


def _kill_redis_saved(stack: FaultStack, _target: str) -> None:
    _unless_away(stack.broker.save)
    stack.kill("broker")


def _restart_postgres(stack: FaultStack, _target: str) -> None:
    stack.signal("postgres", signal.SIGQUIT)  # as `pg_ctl restart -m immediate` does


def _cut_postgres_clients(stack: FaultStack, _target: str) -> None:
    _unless_away(lambda: stack.run(CUT_POSTGRES_CLIENTS))


_ACTS: dict[Fault, Callable[[FaultStack, str], AbstractContextManager[object] | None]] = {
    Fault.KILL: _kill,
    Fault.FREEZE: lambda stack, name: stack.frozen(name),
    Fault.CUT_REDIS_CLIENTS: _cut_redis_clients,
    Fault.FLUSH_REDIS: _flush_redis,
    Fault.KILL_REDIS_SAVED: _kill_redis_saved,
    Fault.RESTART_POSTGRES: _restart_postgres,
    Fault.CUT_POSTGRES_CLIENTS: _cut_postgres_clients,
    Fault.FULL_DATABASE: lambda stack, _target: full_database(stack),
    Fault.FULL_SPOOL: lambda stack, _target: stack.full_spool(),
    Fault.TOXIC: lambda stack, kind: stack.proxy.toxic(Toxic(Kind(kind), after=_AFTER)),
}


def _end_after(seconds: float, until: ExitStack) -> None:
    time.sleep(seconds)
    until.close()


def _unless_away(act: Callable[[], object]) -> None:
    """A server that another fault has taken away cannot be asked for one more."""
    try:
        act()
    except (RedisError, SQLAlchemyError):
        return


def _insist(act: Callable[[], object]) -> None:
    while True:
        try:
            act()
        except SQLAlchemyError:
            time.sleep(0.1)
        else:
            return
