"""`fresh serve` in a process of its own, with many clients at once."""

import asyncio
import gc
import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record
from fresh.web import server
from served import TEXT, serve_process

WORDS = TEXT.split()
TEXTS = [" ".join(WORDS[number % 12 :] + WORDS[: number % 7 + 1]) for number in range(84)]

Answers = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def address(place: str) -> Iterator[str]:
    with serve_process(f"model={place}") as (address, _, _):
        yield address


async def client(address: str, number: int, ends: float) -> Answers:
    """Ask one text after the other; all answers must be good ones."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    found: Answers = []
    while time.monotonic() < ends or len(found) < 2:  # two also where the machine is busy
        text = TEXTS[(number + len(found)) % len(TEXTS)]
        body = json.dumps({"text": text})
        head = f"POST /v1/models/model/explain HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert told.startswith(b"http/1.1 200"), told
        [length] = re.findall(rb"content-length: (\d+)", told)
        found.append((text, json.loads(await reader.readexactly(int(length)))))
    writer.close()
    return found


@pytest.mark.parametrize(("n_clients", "seconds"), [(8, 1), pytest.param(50, 4, marks=pytest.mark.slow)])
def test_many_clients_get_their_own_answers_and_no_error(
    address: str, place: str, n_clients: int, seconds: float
) -> None:
    model = Rationalizer.from_pretrained(place, device="cpu")
    right = dict(zip(TEXTS, map(to_record, model.explain(TEXTS)), strict=True))

    async def crowd() -> list[Answers]:
        ends = time.monotonic() + seconds
        return await asyncio.gather(*(client(address, number, ends) for number in range(n_clients)))

    found = asyncio.run(crowd())
    assert all(len(answers) > 1 for answers in found)
    for text, record in (answer for answers in found for answer in answers):
        expected = right[text]
        assert [record[name] for name in ("label", "rationale")] == [expected[name] for name in ("label", "rationale")]
        assert record["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)


def test_the_garbage_collector_leaves_loaded_models_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []

    class Served:
        def run(self, sockets: list[Any]) -> None:
            frozen.append(gc.get_freeze_count())

    monkeypatch.setattr(server, "make_server", lambda *_: Served())
    try:
        with server.bind("127.0.0.1", 0) as taken:
            server.serve(FastAPI(), taken)
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000
