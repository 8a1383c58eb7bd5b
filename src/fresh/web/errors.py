"""Errors as RFC 9457 problem details."""

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
INTERNAL_ERROR = "Internal server error. See the log of the server."
CLIENT_CLOSED = 499  # the client has gone, so that only the metrics show it
COMMON_STATUSES = (421, 500)  # any route may return these
WRITE_STATUSES = (403, 413, *COMMON_STATUSES)  # any route with a request body may return these
STATUS_MESSAGES = {404: "Not found. See /v1/openapi.json.", 405: "Method not allowed. See /v1/openapi.json."}
_UNPARSABLE = "There was an error parsing the body"  # FastAPI's message for valid JSON that Python cannot load
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, and how to fix it."},
    },
}


class Problem(HTTPException):
    """A request that cannot be answered: a status, a message, and perhaps headers."""


def problem_response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response; ASCII only, since messages may quote lone surrogates."""
    title = "Client Closed Request" if status == CLIENT_CLOSED else HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(json.dumps(problem), status, headers, MEDIA_TYPE)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that a route may return, for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": _SCHEMA}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def _json_response(_scope: Scope, status: int, detail: str, headers: Mapping[str, str] | None) -> Response:
    return problem_response(status, detail, headers)


@dataclass(frozen=True, slots=True)
class ErrorRenderer:
    """How an app responds to errors."""

    respond: Callable[[Scope, int, str, Mapping[str, str] | None], Response] = _json_response
    messages: Mapping[int, str] = field(default_factory=lambda: STATUS_MESSAGES)  # in place of the framework's own

    def render(self, scope: Scope, error: HTTPException) -> Response:
        """Make the response to a request that raised an error."""
        if isinstance(error, Problem):
            message = error.detail
        elif isinstance(error.__cause__, UnicodeDecodeError):
            cause = error.__cause__
            byte = f"the byte 0x{cause.object[cause.start]:02x} at position {cause.start:,}"
            message = f"The body is not UTF-8 ({byte}). Send JSON as UTF-8."
        elif error.detail == _UNPARSABLE:
            message = "The JSON of the body cannot be read: it is nested too deeply, or a number has too many digits."
        else:
            message = self.messages.get(error.status_code, f"{error.detail}.")
        return self.respond(scope, error.status_code, message, error.headers)


def add_error_handlers(app: FastAPI, renderer: ErrorRenderer) -> None:
    """Respond to all errors of an app in one way."""

    @app.exception_handler(HTTPException)
    def handle_http_error(request: Request, error: HTTPException) -> Response:
        return renderer.render(request.scope, error)

    @app.exception_handler(RequestValidationError)
    def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        if isinstance(error.body, bytes):  # FastAPI leaves the body as bytes if the content type is not JSON
            kind = request.headers.get("content-type")
            content_type = f"has the content type {kind[:60]}" if kind else "has no content type"
            message = f"The body {content_type}. Send JSON with the header Content-Type: application/json."
            return renderer.respond(request.scope, 415, message, None)
        return renderer.respond(request.scope, 422, " ".join(map(_validation_message, error.errors())), None)


def _validation_message(error: Mapping[str, Any]) -> str:
    field_name = ".".join(map(str, error["loc"][1:]))  # such as texts.3
    if error["type"] == "json_invalid":
        return f"The body is not valid JSON ({error['ctx']['error']}). Send a JSON object."
    if error["type"] == "extra_forbidden":
        return f"{error['loc'][-1]} is not a field of this request."
    if error["loc"] == ("body",):
        return f"The body is {'empty' if error['type'] == 'missing' else 'not a JSON object'}. Send a JSON object."
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
        return f"{field_name} must be a file, not text." if "UploadFile" in message else message
    return f"{field_name}: {error['msg'][:1].lower()}{error['msg'][1:]}."
