"""Figures for Prometheus: requests, how long they take, what is put together, what waits."""

import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


class ServerMetrics:
    """All figures of one server."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter(
            "fresh_requests", "Requests answered.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "fresh_request_seconds",
            "Time until a request was answered.",
            ("route",),
            registry=registry,
            buckets=SECONDS,
        )
        self.batches = Histogram(
            "fresh_batch_texts", "Texts that were read together.", ("model",), registry=registry, buckets=TEXTS
        )
        self.waiting = Gauge("fresh_waiting_texts", "Texts that wait to be read.", ("model",), registry=registry)
        self.dropped = Counter(
            "fresh_dropped_requests", "Requests that nobody waited for any more.", ("model",), registry=registry
        )
        self.refused = Counter(
            "fresh_refused_requests", "Requests refused since too many wait.", ("model",), registry=registry
        )
        self.jobs = Gauge("fresh_jobs", "Files that are kept with their results.", registry=registry)

    def exposed(self) -> Response:
        """Tell all figures in the words of Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


class Counted:
    """Counts requests by the route they took, and their time."""

    def __init__(self, app: ASGIApp, measures: ServerMetrics) -> None:
        self.app = app
        self.measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered, and count it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, begin = 500, time.perf_counter()

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            # By its pattern, not its path, and only by known methods: else everybody could add figures without end.
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if route != "none" and scope["method"] in METHODS else "any"
            self.measures.requests.labels(method, route, str(status)).inc()
            self.measures.seconds.labels(route).observe(time.perf_counter() - begin)
