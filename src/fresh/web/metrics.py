"""Metrics for Prometheus."""

import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


class ServerMetrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        request, route, model = ("method", "route", "status"), ("route",), ("model",)
        self.requests = Counter("fresh_requests", "Requests answered.", request, registry=registry)
        self.seconds = Histogram(
            "fresh_request_seconds", "Time to answer a request.", route, registry=registry, buckets=_SECONDS
        )
        self.batches = Histogram("fresh_batch_texts", "Texts in a batch.", model, registry=registry, buckets=_TEXTS)
        self.waiting = Gauge("fresh_waiting_texts", "Texts that wait.", model, registry=registry)
        self.dropped = Counter("fresh_dropped_requests", "Requests whose client left.", model, registry=registry)
        self.refused = Counter("fresh_refused_requests", "Requests refused by overload.", model, registry=registry)
        self.jobs = Gauge("fresh_jobs", "Uploaded files on the server.", registry=registry)

    def render(self) -> Response:
        """Return all metrics in the text format of Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class MetricsMiddleware:
    """Counts and times requests by route."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, start = 500, time.perf_counter()

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            # Label by route pattern and known methods only: paths from clients would add time series without limit.
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if route != "none" and scope["method"] in _METHODS else "any"
            self.metrics.requests.labels(method, route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - start)
