"""Who may look at everybody's work: the holder of an admin key, until the key is withdrawn.

A sign-in is remembered by the browser, never here.  It carries the key's id and its own end, and
both are held against the key's row each time it is shown.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobs import keys
from jobs.errors import NotAuthenticated

SIGN_IN_LASTS = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class SignIn:
    key_id: str
    ends_at: int  # seconds since 1970, by the database's clock


_END = text("SELECT extract(epoch FROM now() + :lasts)::bigint")

_STANDS = text("""
    SELECT 1
      FROM api_keys
     WHERE id = :key_id AND admin AND revoked_at IS NULL
       AND coalesce(expires_at > now(), true)
       AND to_timestamp(:ends_at) > now()
""")


def sign_in(session: Session, key: str) -> SignIn:
    """Let the holder of an admin key in.  Raises NotAuthenticated, which says why."""
    caller = keys.authenticate(session, key)
    if not caller.admin:
        raise NotAuthenticated("This API key is valid, but it is not an admin's.")
    ends_at: int = session.execute(_END, {"lasts": SIGN_IN_LASTS}).scalar_one()
    return SignIn(caller.key_id, ends_at)


def still_stands(session: Session, sign_in: SignIn) -> bool:
    """Whether that sign-in has not ended, and its key is still an admin's."""
    values = {"key_id": sign_in.key_id, "ends_at": sign_in.ends_at}
    return session.execute(_STANDS, values).first() is not None
