"""Puts the API together: routes, errors, metrics, and the operator's page beside them."""

from datetime import timedelta
from functools import partial
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from api import errors
from api.dashboard.app import create_dashboard
from api.dashboard.collector import QueueCollector
from api.dashboard.snapshots import Snapshots
from api.metrics import CountRequests, HttpMetrics
from api.openapi import ANY_ERROR, Api
from api.patience import Patient
from api.routes import (
    batches,
    completions,
    control,
    files,
    jobs,
    models,
    operations,
    quotas,
    results,
    uploads,
    webhook_deliveries,
    webhook_endpoints,
)
from api.services import Services
from jobs import reading

_PARTS = (
    jobs,
    completions,
    batches,
    control,
    results,
    files,
    uploads,
    webhook_endpoints,
    webhook_deliveries,
    quotas,
    models,
    operations,
)


def create_app(services: Services, *, beat_ttl: timedelta) -> Api:
    """`beat_ttl` is how long a worker's beat lasts: the page shows its age by it."""
    registry = CollectorRegistry()
    snapshots = Snapshots(services.sessions, beat_ttl=beat_ttl)
    registry.register(QueueCollector(snapshots))

    app = Api(title="Gristmill", version=version("gristmill"), redoc_url=None, responses=ANY_ERROR)
    app.state.services = services
    app.state.registry = registry
    app.state.ask_tables = Patient(partial(_ask_tables, services))
    for part in _PARTS:
        app.include_router(part.router)
    app.mount(
        "/dashboard",
        create_dashboard(sessions=services.sessions, secrets=services.secrets, snapshots=snapshots),
    )
    errors.install(app)
    metrics = HttpMetrics(registry, waiting=services.watch.__len__)
    app.add_middleware(CountRequests, metrics=metrics)
    return app


def _ask_tables(services: Services) -> None:
    with services.sessions() as session:
        reading.list_models(session)
