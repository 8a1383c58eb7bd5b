"""Routes to models: what there is, explain, curve, certificate."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from fresh.audit.certificates.certify import certificates_of
from fresh.document import Explanation
from fresh.reporting.console import to_record
from fresh.selection.extractors import Curve
from fresh.serving.batcher import ENDING, ClosedError, OverloadedError
from fresh.serving.models import Models
from fresh.serving.question import Question
from fresh.serving.schemas import About, Asked, CurveRecord, Record
from fresh.web.errors import ALWAYS, CHANGING, LEFT, Problem, problems

Result = TypeVar("Result")
JSON_LINES = "application/x-ndjson"
MUCH = 20_000
"""Characters from which on a request takes a thread of its own; splitting them takes some 30 ms."""
Documented = dict[int | str, dict[str, Any]]
"""Answers of a route, in the words of OpenAPI."""
REFUSALS = (400, 404, 408, 415, 422, 503, *CHANGING)


def explaining(models: Models, seconds: float) -> APIRouter:
    """Make the routes.

    :param seconds: How long somebody waits for an answer, at most.
    """
    router = APIRouter(prefix="/v1/models", tags=["models"])

    @router.get("", summary="Which models there are", responses=problems(*ALWAYS))
    def all_models() -> list[About]:
        """List the models, and what must be known to ask them."""
        return [About(**served.about()) for served in models.served.values()]

    @router.post("/{name}/explain", summary="Classify text and say from which words", responses=problems(*REFUSALS))
    async def explain(name: str, asked: Asked, request: Request) -> Record | list[Record]:
        """Answer about `text`, `texts`, or `words` of which exactly those that are `kept` are read.

        For `texts` comes a list, else one record: what `fresh explain` writes.
        """
        served = models.find(name)
        questions = await _beside(asked, asked.questions, served)
        answers = await _got(
            request, _put(partial(served.batcher.ask, questions)), seconds, served.batcher.seconds_left
        )
        return _as_json(await _beside(asked, _written, asked, answers))  # type: ignore[return-value]

    @router.post("/{name}/curve", summary="Answer from growing rationales", responses=problems(*REFUSALS))
    async def curve(name: str, asked: Asked, request: Request) -> CurveRecord:
        """Answer about one `text` at every length that the model was trained for."""
        served = models.find(name)
        question = await _beside(asked, asked.one, served)
        if served.model.ratios is None:
            raise Problem(422, f"Model {served.name!r} was trained for one length, so that there is no curve.")
        question = Question(question.document, curve=True)
        [points] = await _got(
            request, _put(partial(served.batcher.ask, [question])), seconds, served.batcher.seconds_left
        )
        return _as_json(await _beside(asked, _curve_of, points))  # type: ignore[return-value]

    certificates: Documented = {200: {"description": "Certificates, for `fresh verify`.", "content": {JSON_LINES: {}}}}

    @router.post(
        "/{name}/certificate",
        summary="Certify answers",
        responses={**certificates, **problems(*REFUSALS)},
        response_class=Response,
    )
    async def certificate(name: str, asked: Asked, request: Request) -> Response:
        """Answer as `explain` does, and give the certificates of the answers as a file."""
        served = models.find(name)
        questions = await _beside(asked, asked.questions, served)
        served.check_folder()
        made = await _got(request, _put(partial(served.certify, questions)), seconds, served.batcher.seconds_left)
        content = await _beside(asked, certificates_of, served.maker, made)
        headers = {"Content-Disposition": 'attachment; filename="certificate.jsonl"'}
        return Response(content, media_type=JSON_LINES, headers=headers)

    return router


async def _beside(asked: Asked, work: Callable[..., Result], *about: Any) -> Result:
    """Do what takes long for much text in a thread of its own, so that others are answered meanwhile."""
    return await run_in_threadpool(work, *about) if asked.n_characters > MUCH else work(*about)


def _written(asked: Asked, answers: Sequence[Sequence[Explanation]]) -> str:
    """Write answers as `fresh explain` does: a list of them for texts, else one."""
    records = [to_record(explanation, asked.scores) for [explanation] in answers]
    return _to_json(records if asked.texts is not None else records[0])


def _curve_of(points: tuple[Explanation, ...]) -> str:
    """Write answers from growing rationales, and from which one on the answer stays."""
    stays = Curve(points).minimal
    minimal = next(place for place, point in enumerate(points) if point is stays)
    return _to_json({"points": [to_record(point) for point in points], "minimal": minimal})


def _to_json(value: Any) -> str:
    """Write a value as JSON; what it holds was checked when it was made."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _as_json(text: str) -> Response:
    """Answer with JSON."""
    return Response(text, media_type="application/json")


def _put(work: Callable[[], "Future[Result]"]) -> "Future[Result]":
    """Have work wait for its turn, unless too much waits."""
    try:
        return work()
    except (OverloadedError, ClosedError) as error:
        raise _busy(error) from error


def _busy(error: Exception) -> Problem:
    """Say when to ask again."""
    return Problem(503, str(error), _later(getattr(error, "seconds", 1)))


def _later(seconds: int) -> Mapping[str, str]:
    """Tell a client when to ask again, in a header."""
    return {"Retry-After": str(seconds)}


async def _got(request: Request, future: "Future[Result]", seconds: float, seconds_left: Callable[[], int]) -> Result:
    """Wait for a result; who leaves, or waits too long, is not worked for any more.

    :param seconds_left: Estimates how long those who wait have to wait.
    """
    waiting: asyncio.Future[Any] = asyncio.wrap_future(future)
    gone: asyncio.Future[Any] = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({waiting, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if waiting.cancelled():
            raise _busy(ClosedError(ENDING))
        if waiting.done():
            result: Result = waiting.result()
            return result
    except ValueError as error:  # the package's own words, such as those on a text that is too long
        raise Problem(422, str(error)) from error
    finally:
        gone.cancel()
        waiting.cancel()
    if gone.done():
        raise Problem(LEFT, "Nobody waits for this answer any more.")
    told = f"The answer took longer than {seconds:g} seconds. Ask again, or about less text."
    raise Problem(503, told, _later(seconds_left()))


async def _left(request: Request) -> None:
    """Wait until the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
