"""Renders the pages.  Jinja escapes everything: model names, hosts and ids are other people's."""

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.dashboard import wording
from jobs import ids
from jobs.models import JobKind, WorkerKind
from jobs.overview.views import BatchView, Overview

_FOLDER = Path(__file__).parent / "templates"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": wording.count,
        "duration": wording.duration,
        "figure": wording.figure,
        "batch_state": wording.batch_state,
        "percent": wording.percent,
        "public_id": _public_id,
        "rate": wording.rate,
        "worker_state": wording.worker_state,
    }
    return environment


def _public_id(batch: BatchView) -> str:
    return ids.public(ids.JOB_PREFIX[JobKind.BATCH], batch.id)


_TEMPLATES = _environment()


def dashboard(request: Request, overview: Overview, *, form_token: str) -> HTMLResponse:
    return _render(request, "dashboard.html", form_token=form_token, **_of(overview))


def panel(request: Request, overview: Overview) -> HTMLResponse:
    return _render(request, "panel.html", **_of(overview))


def sign_in(request: Request, *, form_token: str, refusal: str | None, code: int) -> HTMLResponse:
    page = _render(request, "sign_in.html", form_token=form_token, refusal=refusal)
    page.status_code = code
    return page


def _of(overview: Overview) -> dict[str, Any]:
    return {
        "overview": overview,
        "queues": [queue for queue in overview.queues if queue.open or queue.workers],
        "engines": [worker for worker in overview.workers if worker.kind is WorkerKind.INFERENCE],
        "controls": [worker for worker in overview.workers if worker.kind is WorkerKind.CONTROL],
    }


def _render(request: Request, template: str, **values: Any) -> HTMLResponse:
    root = request.scope["root_path"]
    return HTMLResponse(_TEMPLATES.get_template(template).render(root=root, **values))
