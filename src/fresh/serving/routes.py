"""Routes of models: list, explain, curve, certificate."""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from fresh.audit.certificates.format import encode_certificates
from fresh.document import Explanation
from fresh.reporting.console import to_record
from fresh.selection.extractors import Curve
from fresh.serving.batcher import SHUTTING_DOWN, Answer, Batcher, ClosedError, OverloadedError
from fresh.serving.models import Models
from fresh.serving.schemas import CurveRecord, ExplainRequest, ModelRecord, Record
from fresh.text import plural
from fresh.web.errors import CLIENT_CLOSED, COMMON_STATUSES, WRITE_STATUSES, Problem, problem_responses

Result = TypeVar("Result")
JSON_LINES = "application/x-ndjson"
_PROBLEMS = problem_responses(400, 404, 408, 415, 422, 503, *WRITE_STATUSES)
_THREAD_CHARACTERS = 20_000  # splitting so much text takes some 30 ms: requests with more are parsed in a thread


def model_routes(models: Models, timeout: float) -> APIRouter:
    """Make the routes.

    :param timeout: Seconds that a client waits for an answer, at most.
    """
    router = APIRouter(prefix="/v1/models", tags=["models"])

    @router.get("", summary="List the models", responses=problem_responses(*COMMON_STATUSES))
    def all_models() -> list[ModelRecord]:
        """Return all models, with what a client must know to use them."""
        return [ModelRecord(**served.describe()) for served in models.served.values()]

    @router.post("/{name}/explain", summary="Classify and explain texts", responses=_PROBLEMS)
    async def explain(name: str, body: ExplainRequest, request: Request) -> Record | list[Record]:
        """Explain `text`, `texts`, or `words` of which exactly those that are `kept` are read.

        Returns a list for `texts`, else one record, as `fresh explain` writes it.
        """
        served = models.get(name)
        specs = await _run(body, body.specs, served)
        answers = await _wait_for(request, served.batcher, partial(served.batcher.submit, specs), timeout)
        return await _run(body, _records_response, body, answers)  # type: ignore[arg-type]

    @router.post("/{name}/curve", summary="Explain a text at all lengths", responses=_PROBLEMS)
    async def curve(name: str, body: ExplainRequest, request: Request) -> CurveRecord:
        """Explain one `text` at every length that the model was trained for."""
        served = models.get(name)
        spec = await _run(body, body.curve_spec, served)
        if served.model.ratios is None:
            raise Problem(422, f"Model {served.name!r} was trained for a single length and has no curve.")
        [points] = await _wait_for(request, served.batcher, partial(served.batcher.submit, [spec]), timeout)
        return await _run(body, _curve_response, points)  # type: ignore[arg-type]

    content = {"description": "Certificates, for `fresh verify`.", "content": {JSON_LINES: {}}}
    responses = {200: content, **_PROBLEMS}

    @router.post("/{name}/certificate", summary="Certify explanations", responses=responses, response_class=Response)
    async def certificate(name: str, body: ExplainRequest, request: Request) -> Response:
        """Explain texts as `explain` does, and return a file with certificates."""
        served = models.get(name)
        specs = await _run(body, body.specs, served)
        certificates = await _wait_for(request, served.batcher, partial(served.certify, specs), timeout)
        lines = await _run(body, encode_certificates, served.maker, certificates)
        headers = {"Content-Disposition": 'attachment; filename="certificate.jsonl"'}
        return Response(lines, media_type=JSON_LINES, headers=headers)

    return router


async def _run(body: ExplainRequest, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function, in a thread if the request has much text, so that other requests are not held up."""
    if body.n_characters > _THREAD_CHARACTERS:
        return await run_in_threadpool(function, *arguments)
    return function(*arguments)


def _records_response(body: ExplainRequest, answers: Sequence[Sequence[Explanation]]) -> Response:
    records = [to_record(explanation, body.scores) for [explanation] in answers]
    return _json_response(records if body.texts is not None else records[0])


def _curve_response(points: Answer) -> Response:
    minimal = Curve(points).minimal
    index = next(index for index, point in enumerate(points) if point is minimal)
    return _json_response({"points": [to_record(point) for point in points], "minimal": index})


def _json_response(value: Any) -> Response:
    # FastAPI would validate and serialize the record a second time.
    return Response(json.dumps(value, ensure_ascii=False, allow_nan=False), media_type="application/json")


def _busy(message: str, seconds: int) -> Problem:
    return Problem(503, message, {"Retry-After": str(seconds)})


async def _wait_for(
    request: Request, batcher: Batcher, submit: Callable[[], "Future[Result]"], timeout: float
) -> Result:
    """Submit work and wait for its result; cancel it if the client leaves, or after the timeout."""
    try:
        result: asyncio.Future[Any] = asyncio.wrap_future(submit())
    except (OverloadedError, ClosedError) as error:
        raise _busy(str(error), getattr(error, "seconds", 1)) from error
    # Starlette does not cancel a route when its client leaves: watch for the message that says so.
    gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({result, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if result.cancelled():
            raise _busy(SHUTTING_DOWN, 1)
        if result.done():
            value: Result = result.result()
            return value
    except ValueError as error:  # an error of the library, such as a text that is too long for the model
        raise Problem(422, str(error)) from error
    finally:
        gone.cancel()
        result.cancel()
    if gone.done():
        raise Problem(CLIENT_CLOSED, "The client has closed the connection.")
    message = f"The answer took longer than {plural(timeout, 'second')}. Try again, or send less text."
    raise _busy(message, batcher.seconds_left())


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
