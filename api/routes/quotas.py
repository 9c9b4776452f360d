"""`/v1/quotas` (ours): what the caller's tenant has, and what it may have."""

from fastapi import APIRouter

from api.deps import CurrentCaller, DbSession
from api.schemas.quotas import QuotasObject
from jobs import quotas

router = APIRouter(prefix="/v1/quotas", tags=["quotas"])


@router.get("")
def read_quotas(caller: CurrentCaller, session: DbSession) -> QuotasObject:
    return QuotasObject.of(quotas.read_usage(session, tenant_id=caller.tenant_id))
