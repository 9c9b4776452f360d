"""`/v1/chat/completions` and `/v1/completions`: one request of the queue, answered in one call.

It goes before all bulk work and is a job like any other, whose id is in the answer's headers.
"""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from api import event_stream, held_jobs
from api.answers import Once, OneAnswer
from api.bodies import body_of, documented
from api.deps import AllServices, row_id
from api.errors import refuse
from api.schemas.completions import CompletionCreate
from api.schemas.jobs import JobObject
from api.services import Services
from jobs import ids, intake, reading
from jobs.doorbell import inference_queue
from jobs.intake import NewJob
from jobs.models import JobKind
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS

router = APIRouter(tags=["completions"])

# As long as OpenAI's clients wait.  The job expires with it: nobody is there to read it any more.
_PATIENCE = timedelta(minutes=10)


@router.post(CHAT_COMPLETIONS, openapi_extra=documented(CompletionCreate))
@router.post(COMPLETIONS, openapi_extra=documented(CompletionCreate))
async def complete(
    request: Request,
    body: Annotated[CompletionCreate, Depends(body_of(CompletionCreate))],
    once: OneAnswer,
    services: AllServices,
) -> Response:
    """Answer one request, as the model's endpoint would.

    Whoever hangs up cancels it, unless an Idempotency-Key says that they may come back for it.
    """
    job_id = await run_in_threadpool(_create, services, once, body, request.url.path)
    services.doorbell.ring(inference_queue(body.model))
    waiting = held_jobs.after_wait(services, once.caller, job_id, wait=_PATIENCE.total_seconds())
    if once.key is not None:
        return _answer(await waiting, body)
    ended = await held_jobs.unless_gone(request, waiting)
    if ended is None:
        await run_in_threadpool(held_jobs.abandon, services, once.caller, job_id)
        return Response(status_code=400)  # nobody is there to read it
    return _answer(ended, body)


def _create(services: Services, once: Once, body: CompletionCreate, endpoint: str) -> UUID:
    new = NewJob(
        endpoint=endpoint,
        model=body.model,
        body=body.asked,
        interactive=True,
        expires_in=_PATIENCE,
    )

    def make() -> JobObject:
        job = intake.create_request_job(session, tenant_id=once.caller.tenant_id, new=new)
        return JobObject.of(reading.of_new(session, job))

    with services.sessions.begin() as session:
        answer = once.answer(session, make, body=body.model_dump_json(exclude_unset=True))
    return row_id(ids.JOB_PREFIX[JobKind.REQUEST], orjson.loads(answer)["id"], param="job_id")


def _answer(job: JobObject, body: CompletionCreate) -> Response:
    headers = {"X-Gristmill-Job": job.id}
    if job.response is not None:
        if body.stream and job.status == "completed":
            return event_stream.answer(
                job.response.body, with_usage=body.wants_usage, headers=headers
            )
        return JSONResponse(job.response.body, job.response.status_code, headers=headers)
    if job.error is not None and job.status != "expired":
        status = 409 if job.status == "cancelled" else 500
        return refuse(status, job.error.message, code=job.error.code, headers=headers)
    message = f"No answer within {_PATIENCE.seconds // 60} minutes; GET /v1/jobs/{job.id} has it."
    return refuse(504, message, code="timeout", headers=headers)
