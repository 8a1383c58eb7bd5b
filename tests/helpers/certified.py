"""Certificates for tests: invented ones, and files that a forger sealed again."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fresh._io import DIGEST, FIRST_DIGEST, PREVIOUS_DIGEST, canonical_sha256, hashed_line
from fresh.audit.certificates.format import Certificate, Fault, Maker, Reader
from fresh.progress import Advance
from fresh.rationale import Prediction, Rationale

MAKER = Maker("ab" * 32, "0.1.0")

Record = dict[str, Any]


def made_up(number: int) -> Certificate:
    rationale = Rationale(("good", "é\n", "\ud800"), ("why", "?")[: number % 3], f"r-{number}")
    return Certificate(rationale, (2, 5 + number, 3), Prediction("pos", {"neg": 0.1, "pos": 0.9}), number // 2)


def sealed(records: Iterable[Record]) -> bytes:
    """Write records with correct digests, whatever they say."""
    written, digest = b"", FIRST_DIGEST
    for record in records:
        line, digest = hashed_line(record, digest)
        written += line
    return written


def resealed(content: bytes, change: Callable[[list[Record]], Any]) -> bytes:
    """Change a file as a forger does who recomputes every digest."""
    records = [json.loads(line) for line in content.splitlines()]
    change(records)
    for record in records:
        if "input" in record:
            record["input_sha256"] = canonical_sha256(record["input"])
    return sealed(
        {key: value for key, value in item.items() if key not in (DIGEST, PREVIOUS_DIGEST)} for item in records
    )


def read(content: bytes) -> tuple[list[Certificate], list[Fault]]:
    """Read a file: the valid certificates, and the faults."""
    faults: list[Fault] = []
    reader = Reader(content.splitlines(keepends=True), lambda line, reason: faults.append(Fault(line, reason)))
    found = [certificate for _, certificate in reader] if reader.read_header() else []
    return found, faults


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


class Watched:
    """Progress that records the name, total and completed steps of each task."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int | None, int]] = []

    def say(self, line: str) -> None:
        raise AssertionError(line)

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        steps: list[int] = []
        yield lambda count, _note: steps.append(count)
        self.done.append((name, total, sum(steps)))


@st.composite
def changed(draw: st.DrawFn, content: bytes) -> bytes:
    """Change, insert or remove one byte."""
    place = draw(st.integers(0, len(content) - 1))
    byte = draw(st.integers(0, 255).filter(lambda value: value != content[place]))
    given, after = draw(st.sampled_from(((bytes([byte]), place + 1), (bytes([byte]), place), (b"", place + 1))))
    return content[:place] + given + content[after:]
