"""Connections to Postgres, with the limits that keep one stuck client from hurting the rest."""

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker

Sessions = sessionmaker[Session]

# Milliseconds.  An idle transaction holds row locks and pins dead tuples, so it is ended well
# before a lease would be.
_LIMITS = {
    "statement_timeout": 60_000,
    "lock_timeout": 10_000,
    "idle_in_transaction_session_timeout": 5_000,
}


# A connection whose other end has gone without a word is given up after about ten seconds, well
# before a lease: without these a beat would wait for the kernel's quarter of an hour.
_SILENCE = {
    "keepalives_idle": 5,  # seconds
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}


def connect(url: str, *, pool_size: int = 5) -> Engine:
    """Return an engine whose pool opens at most 2 * `pool_size` connections, none of them yet."""
    options = " ".join(f"-c {name}={value}" for name, value in _LIMITS.items())
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        pool_timeout=10,
        hide_parameters=True,  # they are prompts and answers, and errors are logged
        connect_args={
            "connect_timeout": 5,
            "options": options,
            "application_name": "gristmill",
            **_SILENCE,
        },
    )


def sessions_of(engine: Engine) -> Sessions:
    """`with sessions.begin() as session:` is one transaction, committed on leaving."""
    return sessionmaker(engine, expire_on_commit=False)


def cause(error: Exception) -> str:
    """What the driver said, without the statement that SQLAlchemy adds: one line."""
    return str(getattr(error, "orig", error)).strip().partition("\n")[0]
