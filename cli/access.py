"""The first tenant of a stack and its key, so that whoever starts one can use it at once."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from cli import private_file
from jobs import keys
from jobs.database import Sessions
from jobs.errors import NotAuthenticated
from jobs.secrets import Secrets

_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Access:
    api_key: str
    webhook_secret: str


def first_access(sessions: Sessions, secrets: Secrets, *, memory: Path) -> Access:
    """The access of the last run if it still works, else a new key.

    A key cannot be read back from the database, so `memory` keeps it.
    """
    known = _remembered(memory)
    with sessions.begin() as session:
        if known is not None and _works(session, known):
            return known
        tenant_id = keys.find_tenant(session, name=_TENANT)
        if tenant_id is None:
            tenant_id = keys.create_tenant(session, secrets, name=_TENANT)
        access = Access(
            api_key=keys.create_key(session, tenant_id=tenant_id, name="gristmill up", admin=True),
            webhook_secret=keys.webhook_secret(session, secrets, tenant_id=tenant_id),
        )
    private_file.write(memory, asdict(access))
    return access


def _remembered(memory: Path) -> Access | None:
    if not memory.exists():
        return None
    return Access(**json.loads(memory.read_text(encoding="utf-8")))


def _works(session: Session, access: Access) -> bool:
    try:
        keys.authenticate(session, access.api_key)
    except NotAuthenticated:
        return False
    return True
