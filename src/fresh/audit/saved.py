"""Explanations that were saved earlier: read back from their file, and found again in the data."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fresh.data.readers import Row, parse_json_lines
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.rationale import Prediction

FIELDS = ("id", "label", "probability", "probabilities", "rationale", "ratio")
"""What every line has that `fresh explain` writes."""
WAY_OUT = "Name a file that `fresh explain --output` wrote."


@dataclass(frozen=True, slots=True)
class _Piece:
    """Neighbouring words of a rationale, as they were saved."""

    start: int
    end: int
    """In characters of the text."""
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A line of explanations."""

    line: int
    id: str
    label: str
    probability: float
    probabilities: dict[str, float]
    pieces: tuple[_Piece, ...]
    ratio: float
    words: tuple[str, ...] | None
    """All words of the document, where they were saved too."""


def read_saved(path: Path) -> list[Saved]:
    """Read the explanations of a file, and refuse one that holds something else."""
    if path.is_dir():
        raise DataError(f"{path} is a folder. {WAY_OUT}")
    if not path.is_file():
        raise DataError(f"There is no file {path}. {WAY_OUT}")
    with path.open("rb") as file:
        saved = [_saved_in(row) for row in parse_json_lines(file, path.name)]
    if not saved:
        raise DataError(f"{path} holds no explanations. {WAY_OUT}")
    return saved


def _saved_in(row: Row) -> Saved:
    """Read one line."""
    values = row.values
    if row.error:
        raise DataError(f"{row.error.brief} {WAY_OUT}")
    missing = [name for name in FIELDS if name not in values]
    if missing:
        raise DataError(f"{row.place} is no explanation: it has no {missing[0]}. {WAY_OUT}")
    table, pieces, words = values["probabilities"], values["rationale"], values.get("words")
    sound = {
        "id": isinstance(values["id"], str),
        "label": isinstance(values["label"], str),
        "probability": _is_number(values["probability"]),
        "probabilities": isinstance(table, dict) and bool(table) and all(map(_is_number, table.values())),
        "rationale": isinstance(pieces, list) and all(map(_is_piece, pieces)),
        "ratio": _is_number(values["ratio"]),
        "words": words is None or (isinstance(words, list) and all(isinstance(word, str) for word in words)),
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise DataError(f"{row.place} is no explanation: its {name} cannot be read. {WAY_OUT}")
    return Saved(
        int(row.where.removeprefix("line ")),
        values["id"],
        values["label"],
        float(values["probability"]),
        {label: float(value) for label, value in table.items()},
        tuple(_Piece(piece["start"], piece["end"], piece["text"]) for piece in pieces),
        float(values["ratio"]),
        None if words is None else tuple(words),
    )


def _is_number(value: Any) -> bool:
    """Say whether a value is a finite number."""
    return type(value) in (int, float) and math.isfinite(value)


def _is_piece(value: Any) -> bool:
    """Say whether a value is a piece of a rationale."""
    return (
        isinstance(value, dict)
        and value.keys() == {"start", "end", "text"}
        and type(value["start"]) is type(value["end"]) is int
        and isinstance(value["text"], str)
    )


def match(saved: Sequence[Saved], documents: Iterable[Document]) -> list[Document | None]:
    """Find the document of each explanation by its id; of several with one id, the next whose text fits."""
    named: dict[str, deque[Document]] = {}
    for document in documents:
        named.setdefault(document.id, deque()).append(document)
    found: list[Document | None] = []
    for item in saved:
        rest = named.get(item.id, deque())
        chosen = next(
            (document for document in rest if _wrong_piece(item, document) is None), rest[0] if rest else None
        )
        if chosen is not None:
            rest.remove(chosen)
        found.append(chosen)
    return found


def _wrong_piece(saved: Saved, document: Document) -> _Piece | None:
    """Find the first saved words that the text does not have at their place."""
    pieces = ((piece, document.text[max(0, piece.start) : max(0, piece.end)]) for piece in saved.pieces)
    return next((piece for piece, there in pieces if there != piece.text), None)


def restored(saved: Saved, document: Document) -> Explanation | str:
    """Make the explanation that was saved, or say why the document has no such rationale."""
    wrong = _wrong_piece(saved, document)
    if wrong is not None:
        there = document.text[max(0, wrong.start) : max(0, wrong.end)]
        return (
            f"the kept words {wrong.text!r} are not in the text: it has {there!r} at characters "
            f"{wrong.start} to {wrong.end}."
        )
    kept = np.zeros(len(document.words), dtype=np.bool_)
    for piece in saved.pieces:
        kept |= [piece.start <= start and end <= piece.end for start, end in document.spans]
    if saved.label not in saved.probabilities:
        return f"the label {saved.label!r} has no probability."
    mask = Mask(kept)
    explanation = Explanation(document, mask, document.cut(mask), Prediction(saved.label, saved.probabilities))
    if explanation.spans != tuple((piece.start, piece.end) for piece in saved.pieces):
        return "the kept words are not whole words of the text, in order and each run of neighbours as one."
    return explanation
