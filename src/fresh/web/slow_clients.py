"""Heads alone: those of requests come whole within a while, and who asks for that of an answer gets no more."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 15.0
"""Time in which the head of a request must have come whole."""


class Punctual(H11Protocol):
    """Closes a connection on which the head of a request does not come in time; uvicorn would wait for ever."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.ends: asyncio.TimerHandle | None = None
        """When the connection is closed, unless the head has come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.ends = self.loop.call_later(SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, from its first byte on, or stop waiting: bodies are the guard's."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_waiting()
        elif self.ends is None:
            self.ends = self.loop.call_later(SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """Leave the connection open."""
        if self.ends is not None:
            self.ends.cancel()
            self.ends = None


class AnswersHead:
    """Has a HEAD request answered like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, sent)
