"""What went wrong, told as RFC 9457 problem details."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"
UNEXPECTED = "Something went wrong that should not have. What it was stands in the log of the server."
LEFT = 499
"""A status for the measures alone: whoever asked has gone."""
UNREAD = "There was an error parsing the body"
"""What the framework says of JSON that is right and yet cannot be read."""
PLAIN = {
    404: "There is nothing at this address. What there is stands in /v1/openapi.json.",
    405: "This address is not asked in this way. How it is asked stands in /v1/openapi.json.",
}
"""What to say where the framework says only its two words."""


class Problem(HTTPException):
    """A request that cannot be answered: the thing, the rule and the way out, for whoever asked."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, dict(headers or {}))


def problem_response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Write a problem as JSON; plain ASCII, since a message may quote half characters."""
    told = {"type": "about:blank", "title": _title_of(status), "status": status, "detail": detail}
    return Response(json.dumps(told), status, headers, MEDIA_TYPE)


def _title_of(status: int) -> str:
    """Name a status."""
    return "Client Closed Request" if status == LEFT else HTTPStatus(status).phrase


def _as_json(_scope: Scope, status: int, detail: str, headers: Mapping[str, str] | None) -> Response:
    """Tell a program what went wrong."""
    return problem_response(status, detail, headers)


@dataclass(frozen=True, slots=True)
class Teller:
    """How an app tells what goes wrong."""

    respond: Callable[[Scope, int, str, Mapping[str, str] | None], Response] = _as_json
    plain: Mapping[int, str] = field(default_factory=lambda: PLAIN)
    """What it says where the framework says only its two words."""

    def tell(self, scope: Scope, error: HTTPException) -> Response:
        """Answer a request that was refused."""
        if isinstance(error, Problem):
            told = error.detail
        elif isinstance(error.__cause__, UnicodeDecodeError):  # the framework says only that it could not read it
            told = _not_utf8(error.__cause__)
        elif error.detail == UNREAD:
            told = "The body is JSON that cannot be read: it is nested too deep, or a number has too many digits."
        else:
            told = self.plain.get(error.status_code, f"{error.detail}.")
        return self.respond(scope, error.status_code, told, error.headers)


def _not_utf8(error: UnicodeDecodeError) -> str:
    """Say where a body is not text."""
    byte = f"the byte 0x{error.object[error.start]:02x} at place {error.start:,}"
    return f"The body is not UTF-8 ({byte}). JSON is sent in UTF-8."


def tell_problems(app: FastAPI, teller: Teller) -> None:
    """Have an app tell all that goes wrong in one way."""

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return teller.tell(request.scope, error)

    def not_understood(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if isinstance(error.body, bytes):  # which it is only where nothing says that it is JSON
            return teller.respond(request.scope, 415, _no_json(request.headers.get("content-type")), None)
        return teller.respond(request.scope, 422, " ".join(map(_mistake, error.errors())), None)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, not_understood)


def _no_json(kind: str | None) -> str:
    """Say how a body is sent."""
    found = f"as {kind[:60]}" if kind else "without saying what it is"
    return f"The body came {found}. Send JSON, with the header Content-Type: application/json."


def _mistake(found: Mapping[str, Any]) -> str:
    """Say what is wrong with one part of a request."""
    if found["type"] == "json_invalid":
        return f"The body is broken JSON ({found['ctx']['error']}). Send one JSON object."
    if found["type"] == "extra_forbidden":
        return f"{found['loc'][-1]} is not a field of this request."
    if found["loc"] == ("body",):
        return f"The body is {'empty' if found['type'] == 'missing' else 'JSON, but no object'}. Send one JSON object."
    if found["type"] == "value_error":
        told = str(found["ctx"]["error"])
        return f"{_place(found['loc'])} must be a file, not text." if "UploadFile" in told else told
    return f"{_place(found['loc'])}: {found['msg'][:1].lower()}{found['msg'][1:]}."


def _place(path: tuple[str | int, ...]) -> str:
    """Name a part of a request, such as texts.3."""
    return ".".join(map(str, path[1:]))


PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, by which rule, and the way out."},
    },
}


ALWAYS = (421, 500)
"""What any request may be answered with: it came under another name, or something went wrong inside."""
CHANGING = (403, 413, *ALWAYS)
"""The same for requests that change something or bring something along: from a page of others, or too large."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the problems that a route may answer with."""
    content = {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}
