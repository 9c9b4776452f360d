"""Where in S3 a tenant's files may lie besides our own bucket: an operator says so."""

from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs import locations
from jobs.errors import NotPermitted
from jobs.locations import Location
from jobs.models import Tenant


def allow(session: Session, *, tenant_id: UUID, folder: Location) -> None:
    """Let the tenant read and write under `folder`.  Allowing it again changes nothing."""
    forbid(session, tenant_id=tenant_id, folder=folder)
    longer = func.array_append(Tenant.allowed_prefixes, str(folder))
    session.execute(update(Tenant).where(Tenant.id == tenant_id).values(allowed_prefixes=longer))


def forbid(session: Session, *, tenant_id: UUID, folder: Location) -> None:
    """What the tenant has registered under `folder` stays registered."""
    shorter = func.array_remove(Tenant.allowed_prefixes, str(folder))
    session.execute(update(Tenant).where(Tenant.id == tenant_id).values(allowed_prefixes=shorter))


def allowed(session: Session, *, tenant_id: UUID) -> list[str]:
    return session.scalars(select(Tenant.allowed_prefixes).where(Tenant.id == tenant_id)).one()


def check_allowed(
    session: Session, *, tenant_id: UUID, location: Location, own_bucket: str, param: str
) -> None:
    """Raises NotPermitted unless the tenant may use `location`; our own bucket is nobody's."""
    folders = [
        locations.parse_folder(uri, param=param) for uri in allowed(session, tenant_id=tenant_id)
    ]
    if location.bucket == own_bucket or not any(map(location.is_under, folders)):
        raise NotPermitted(
            f"{location} is under no prefix that you may use. Your operator adds one with"
            " `gristmill tenants allow`.",
            param=param,
        )
