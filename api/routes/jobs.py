"""`/v1/jobs`: one request each, with its result, waited for or polled."""

import re
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import orjson
from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Response, status
from starlette.concurrency import run_in_threadpool

from api import held_jobs
from api.answers import Once, OneAnswer
from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller, DbSession, after_id, row_id
from api.schemas.given import ListOf
from api.schemas.jobs import JobCreate, JobObject
from api.schemas.sent import PageQuery
from api.services import Services
from jobs import finishing, ids, intake, reading, webhook_urls
from jobs.doorbell import CONTROL, inference_queue
from jobs.intake import NewJob
from jobs.models import JobKind
from jobs.paging import Cursor

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_PREFIX = ids.JOB_PREFIX[JobKind.REQUEST]
_MAX_WAIT = 60  # seconds
# RFC 7240, section 4.3.
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*([0-9]{1,6})\s*(?:$|[,;])", re.IGNORECASE)

Prefer = Annotated[
    str | None, Header(description=f"`wait=N` holds the answer up to {_MAX_WAIT} s.")
]
Wait = Annotated[float, Query(ge=0, le=_MAX_WAIT, allow_inf_nan=False)]


@router.post(
    "",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=JobObject,
    openapi_extra=documented(JobCreate),
)
async def create_job(
    body: Annotated[JobCreate, Depends(body_of(JobCreate))],
    once: OneAnswer,
    services: AllServices,
    prefer: Prefer = None,
) -> Response:
    """Accept one request.

    The committed row is the promise: the bell only makes it start sooner, and the sweeper rings
    again for every row whose bell was lost.  With `Prefer: wait=N` the answer is held until the job
    has ended, at most N seconds, and is the job as it then is.
    """
    answer = await run_in_threadpool(_create, services, once, body)
    services.doorbell.ring(inference_queue(body.model))
    wait = _wanted_wait(prefer)
    if not wait:
        return _accepted(answer)
    job_id = _id(orjson.loads(answer)["id"])
    held = await held_jobs.after_wait(services, once.caller, job_id, wait=wait)
    return _accepted(held.model_dump_json())


@router.get("")
def list_jobs(
    caller: CurrentCaller, session: DbSession, query: Annotated[PageQuery, Query()]
) -> ListOf[JobObject]:
    """The newest first.  In a list `queue`, `response` and `error` are null; read a single job."""
    cursor = Cursor(limit=query.limit, after=after_id(_PREFIX, query.after))
    page = reading.list_jobs(
        session, tenant_id=caller.tenant_id, kind=JobKind.REQUEST, cursor=cursor
    )
    return ListOf.page([JobObject.of(view) for view in page.views], has_more=page.has_more)


@router.get("/{job_id}")
async def read_job(
    job_id: str, caller: CurrentCaller, services: AllServices, wait: Wait = 0
) -> JobObject:
    """The job, with its result when it has one.  `wait` holds the answer until it has ended."""
    return await held_jobs.after_wait(services, caller, _id(job_id), wait=wait)


@router.post("/{job_id}/cancel")
def cancel_job(
    job_id: str,
    caller: CurrentCaller,
    services: AllServices,
    background: BackgroundTasks,
) -> JobObject:
    with services.sessions.begin() as session:
        finishing.cancel(
            session, tenant_id=caller.tenant_id, job_id=_id(job_id), kind=JobKind.REQUEST
        )
    background.add_task(services.doorbell.ring, CONTROL)  # it may be finalized at once
    return held_jobs.read(services, caller, _id(job_id))


def _create(services: Services, once: Once, body: JobCreate) -> str:
    if body.webhook_url is not None:
        webhook_urls.check(body.webhook_url, allow_private=services.allow_private_webhooks)
    new = NewJob(
        endpoint=body.endpoint,
        model=body.model,
        body=body.body,
        interactive=body.priority == "interactive",
        expires_in=timedelta(seconds=body.expires_in),
        webhook_url=body.webhook_url,
        metadata=body.metadata,
    )

    def make() -> JobObject:
        job = intake.create_request_job(session, tenant_id=once.caller.tenant_id, new=new)
        return JobObject.of(reading.of_new(session, job))

    with services.sessions.begin() as session:
        return once.answer(session, make, body=body.model_dump_json())


def _wanted_wait(prefer: str | None) -> int:
    """A preference over what we allow is cut, not refused: it is only a preference."""
    found = _WAIT.search(prefer or "")
    return min(int(found[1]), _MAX_WAIT) if found else 0


def _accepted(answer: str) -> Response:
    return Response(answer, status_code=status.HTTP_202_ACCEPTED, media_type="application/json")


def _id(name: str) -> UUID:
    return row_id(_PREFIX, name, param="job_id")
