"""`/v1/chat/completions` and `/v1/completions`: one request of the queue, answered in one call.

It goes before all bulk work and is a job like any other, whose id is in the answer's headers.
"""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from api import held_jobs
from api.bodies import body_of, documented
from api.deps import AllServices, CurrentCaller
from api.errors import refuse
from api.schemas.completions import CompletionCreate
from api.schemas.jobs import JobObject
from jobs import intake
from jobs.doorbell import inference_queue
from jobs.errors import InvalidValue
from jobs.intake import NewJob
from jobs.models import Job
from jobs.requests import CHAT_COMPLETIONS, COMPLETIONS

router = APIRouter(tags=["completions"])

# As long as OpenAI's clients wait.  The job expires with it: nobody is there to read it any more.
_PATIENCE = timedelta(minutes=10)


@router.post(CHAT_COMPLETIONS, openapi_extra=documented(CompletionCreate))
@router.post(COMPLETIONS, openapi_extra=documented(CompletionCreate))
async def complete(
    request: Request,
    body: Annotated[CompletionCreate, Depends(body_of(CompletionCreate))],
    caller: CurrentCaller,
    services: AllServices,
) -> Response:
    """Answer one request, as the model's endpoint would."""
    if body.stream:
        raise InvalidValue("Streaming is not supported yet; leave 'stream' out.", param="stream")
    new = NewJob(
        endpoint=request.url.path,
        model=body.model,
        body=body.model_dump(exclude_unset=True),
        interactive=True,
        expires_in=_PATIENCE,
    )

    def create() -> Job:
        with services.sessions.begin() as session:
            return intake.create_request_job(session, tenant_id=caller.tenant_id, new=new)

    job = await run_in_threadpool(create)
    await run_in_threadpool(services.doorbell.ring, inference_queue(body.model))
    ended = await held_jobs.after_wait(services, caller, job.id, wait=_PATIENCE.total_seconds())
    return _answer(ended)


def _answer(job: JobObject) -> Response:
    headers = {"X-Gristmill-Job": job.id}
    if job.response is not None:
        return JSONResponse(job.response.body, job.response.status_code, headers=headers)
    if job.error is not None:
        return refuse(500, job.error.message, code=job.error.code, headers=headers)
    message = f"No answer within {_PATIENCE.seconds // 60} minutes; GET /v1/jobs/{job.id} has it."
    return refuse(504, message, code="timeout", headers=headers)
