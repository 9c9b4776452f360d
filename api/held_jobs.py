"""A single request's job as its clients read it: waited for, with its result from S3."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from uuid import UUID

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from api.schemas.jobs import JobObject
from api.services import Services
from jobs import finishing, reading, segment_objects
from jobs.doorbell import CONTROL
from jobs.errors import NotAllowedNow, SegmentDamaged
from jobs.keys import Caller
from jobs.models import JobKind

log = logging.getLogger(__name__)


async def after_wait(services: Services, caller: Caller, job_id: UUID, *, wait: float) -> JobObject:
    """The job once it has ended, or as it is after `wait` seconds.  Holds no thread meanwhile."""
    if wait and not await run_in_threadpool(_has_ended, services, caller, job_id):
        await services.watch.until_finished(job_id, timeout=wait)
    return await run_in_threadpool(read, services, caller, job_id)


async def unless_gone(
    request: Request, waiting: Coroutine[Any, Any, JobObject]
) -> JobObject | None:
    """What `waiting` comes to, or None if the client hangs up before.  Its body must be read."""
    held, gone = asyncio.ensure_future(waiting), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([held, gone], return_when=asyncio.FIRST_COMPLETED)
        return held.result() if held.done() else None
    finally:
        held.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def abandon(services: Services, caller: Caller, job_id: UUID) -> None:
    """Cancel a job that nobody waits for any more, unless it has ended."""
    with suppress(NotAllowedNow), services.sessions.begin() as session:
        finishing.cancel(session, tenant_id=caller.tenant_id, job_id=job_id, kind=JobKind.REQUEST)
    services.doorbell.ring(CONTROL)  # it may be finalized at once


def _has_ended(services: Services, caller: Caller, job_id: UUID) -> bool:
    with services.sessions.begin() as session:
        return reading.has_ended(
            session, tenant_id=caller.tenant_id, kind=JobKind.REQUEST, job_id=job_id
        )


def read(services: Services, caller: Caller, job_id: UUID) -> JobObject:
    """The job with its result, read from S3 while no transaction is open.

    One that the store gives back otherwise than it was written is an error, and is said to be lost.
    """
    with services.sessions.begin() as session:
        found = reading.get_job(
            session, tenant_id=caller.tenant_id, kind=JobKind.REQUEST, job_id=job_id
        )
    place = found.result
    if place is None:
        return JobObject.of(found)
    try:
        line = segment_objects.read_line(
            services.storage, place.segment, start=place.start, length=place.length
        )
    except SegmentDamaged:
        log.exception("the result of a job is lost", extra={"job_id": str(job_id)})
        return JobObject.of(found).without_result()
    return JobObject.of(found, result_line=line)
