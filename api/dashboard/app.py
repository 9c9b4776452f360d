"""Puts the dashboard together."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from api.dashboard.guards import SignedOut, say_database_is_away, send_to_sign_in
from api.dashboard.headers import SafeHeaders
from api.dashboard.routes import entrance, signed_in
from api.dashboard.sign_in import Signer
from api.dashboard.snapshots import Snapshots
from api.errors import DATABASE_AWAY
from jobs.database import Sessions
from jobs.secrets import Secrets

_STATIC = Path(__file__).parent / "static"


def create_dashboard(*, sessions: Sessions, secrets: Secrets, snapshots: Snapshots) -> FastAPI:
    """An application to mount at /dashboard.  `snapshots` may be shared with /metrics."""
    app = FastAPI(openapi_url=None)
    app.state.sessions = sessions
    app.state.signer = Signer(secrets)
    app.state.snapshots = snapshots
    app.include_router(signed_in)
    app.include_router(entrance)
    app.mount("/static", StaticFiles(directory=_STATIC))
    app.add_exception_handler(SignedOut, send_to_sign_in)
    for away in DATABASE_AWAY:
        app.add_exception_handler(away, say_database_is_away)
    app.add_middleware(SafeHeaders)
    return app
