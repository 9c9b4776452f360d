"""Counts what the API answered, and how long it took, for Prometheus."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Any text may stand where a method does; a label may not.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class HttpMetrics:
    """The numbers of one app.  `waiting` says how many requests are held just now."""

    def __init__(self, registry: CollectorRegistry, *, waiting: Callable[[], float]) -> None:
        held = Gauge(
            "gristmill_http_requests_waiting",
            "Requests that are held until their job ends.",
            registry=registry,
        )
        held.set_function(waiting)
        self._requests = Counter(
            "gristmill_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "gristmill_http_request_seconds",
            "From a request's first byte to its answer's last, waits included.",
            ["route"],
            registry=registry,
            buckets=_SECONDS,
        )

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = _route(scope)
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class CountRequests:
    """ASGI middleware.  Not Starlette's base class, which would buffer what streams."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._metrics.count(scope, status, time.monotonic() - began)


def _route(scope: Scope) -> str:
    """The route's pattern, never the path: that would be a label for each job."""
    if scope.get("root_path"):
        return str(scope["root_path"])
    return str(getattr(scope.get("route"), "path", "none"))
