"""What a supervisor and Prometheus ask.  Without a key: nothing here is a tenant's."""

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from api.patience import Patient

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """The process answers.  Of the servers behind it this says nothing: no restart would help."""
    return {"status": "ok"}


@router.get("/readyz")
async def ready(request: Request) -> dict[str, str]:
    """Jobs are taken in: Postgres answers and has our tables.  503 otherwise.

    Neither S3 nor the broker is asked, for a job is accepted without them.
    """
    ask_tables: Patient[None] = request.app.state.ask_tables
    await asyncio.to_thread(ask_tables)  # the routes' threads may all wait for Postgres
    return {"status": "ready"}


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """The app's numbers and the whole process's, see jobs/metrics.py."""
    registry: CollectorRegistry = request.app.state.registry
    numbers = await asyncio.to_thread(generate_latest, registry) + generate_latest(REGISTRY)
    return Response(numbers, media_type=CONTENT_TYPE_LATEST)
