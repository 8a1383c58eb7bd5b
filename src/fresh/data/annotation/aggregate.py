"""What several people marked in one text, and what of it counts."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Document, Mask
from fresh.errors import RowError
from fresh.text import Spans

MEND = "Mend it in the tool and export the file again, or leave such rows out with skip_bad=True."


@dataclass(frozen=True, slots=True)
class Answer:
    """What one annotator said about a text."""

    spans: Spans | None
    """Places marked, in characters; none if the annotator was not asked for any."""
    choices: Mapping[str, Any]
    """Classes chosen, by the name of the question."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What each annotator marked in a text, in characters."""

    annotators: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Stands in the place of a label that people chose not to give; the row is left out where a label is needed."""

    problem: str


def guarded(row: Row, tool: str, make: Callable[[], Row]) -> Row:
    """Make a row, or one that says why it cannot be made."""
    if row.error:
        return row
    try:
        return make()
    except RowError as error:
        problem = error
    except (AttributeError, KeyError, TypeError) as error:
        problem = RowError(row.place, f"it is not as {tool} writes it ({error!r:.80}).", MEND)
    return Row({}, row.name, row.where, row.number, problem)


def joined(row: Row, fields: Mapping[str, Any], answers: Sequence[Answer], config: DataConfig) -> Row:
    """Make a table's row of what all annotators said about one text; a text in which nobody marked has no rationale."""
    values = dict(fields)
    for name in dict.fromkeys(name for answer in answers for name in answer.choices):
        chosen = [answer.choices[name] for answer in answers if name in answer.choices]
        values[name] = _agreed(row, chosen) if name == config.label else chosen[0]
    if config.rationale:
        marked = tuple(answer.spans for answer in answers if answer.spans is not None)
        values[config.rationale] = Marks(marked) if any(marked) else None
    return Row(values, row.name, row.where, row.number)


def one_of(chosen: Sequence[Any]) -> Any:
    """Take the only class; several stay together, and are refused where they are the label."""
    if len(chosen) == 1 and isinstance(chosen[0], str | int | float):
        return chosen[0]
    return tuple(map(str, chosen)) or None


def _agreed(row: Row, chosen: Sequence[Hashable]) -> Any:
    """Find the class that most annotators chose."""
    first, *others = Counter(choice for choice in chosen if choice is not None).most_common(2) or [(None, 0)]
    if others and others[0][1] == first[1]:
        problem = f"its annotators disagree on the label: {first[0]} or {others[0][0]}."
        raise RowError(row.place, problem, MEND)
    return first[0]


def wants(config: DataConfig, *names: str) -> bool:
    """Tell whether marks of such a name count: all do, unless `rationale` names some."""
    return config.rationale == DataConfig().rationale or config.rationale in names


def vote(marks: Marks, document: Document, agreement: float, place: str) -> tuple[Mask, int]:
    """Keep the words that enough annotators marked; count the spans that cut a word, which are widened."""
    runs = [_runs_of(spans, document) for spans in marks.annotators]
    both = [
        pair for spans, found in zip(marks.annotators, runs, strict=True) for pair in zip(spans, found, strict=True)
    ]
    refuse_bad(place, _problems_of(both, document.text))
    votes = np.zeros(len(document.words), dtype=np.int64)
    for found in runs:
        votes += Mask.from_spans(found, len(document.words)).kept
    needed = max(1, math.ceil(len(runs) * Fraction(str(agreement))))
    return Mask(votes >= needed), sum(_cuts(span, run, document) for span, run in both)


def _problems_of(both: Iterable[tuple[tuple[int, int], tuple[int, int]]], text: str) -> Iterator[str]:
    """Say which spans are outside of the text or hold no word."""
    for (start, end), (first, after) in both:
        if not 0 <= start < end <= len(text):
            yield f"the span ({start}, {end}) does not fit a text of {len(text)} characters."
        elif first >= after:
            yield f"the span ({start}, {end}) holds no word, only {text[start:end]!r:.40}."


def refuse_bad(place: str, problems: Iterable[str]) -> None:
    """Refuse a row whose spans cannot be used: name the first of them and count the others."""
    first, *more = [*problems] or [""]
    if first:
        rest = f" (and {len(more)} more bad span{'s' if len(more) > 1 else ''})" if more else ""
        raise RowError(place, first + rest, MEND)


def touched(spans: Iterable[tuple[int, int]], document: Document) -> Iterator[tuple[int, int]]:
    """Turn characters into words: every word that a span touches."""
    return ((first, after) for first, after in _runs_of(spans, document) if first < after)


def _runs_of(spans: Iterable[tuple[int, int]], document: Document) -> list[tuple[int, int]]:
    """Find for each span the first word that it touches, and the word after the last; for none, they do not ascend."""
    starts, ends = np.array(document.spans).T
    return [
        (int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))) for start, end in spans
    ]


def _cuts(span: tuple[int, int], run: tuple[int, int], document: Document) -> bool:
    """Tell whether a span begins or ends within a word."""
    return document.spans[run[0]][0] < span[0] or span[1] < document.spans[run[1] - 1][1]


def place_of(row: Row, span: Mapping[str, Any]) -> tuple[int, int]:
    """Take start and end of a span."""
    start, end = span.get("start"), span.get("end")
    if type(start) is not int or type(end) is not int:
        raise RowError(row.place, f"a span needs start and end, got {dict(span)!r:.60}.", MEND)
    return start, end


def check_texts(row: Row, text: str, spans: Sequence[tuple[int, int]], given: Sequence[str | None]) -> None:
    """Refuse spans that do not hold the text that the tool wrote beside them."""
    wrong = (
        f"the span ({start}, {end}) should hold {words!r:.40}, but the text there is {text[start:end]!r:.40}."
        for (start, end), words in zip(spans, given, strict=True)
        if not same(text, start, end, words)
    )
    refuse_bad(row.place, wrong)


def same(text: str, start: int, end: int, given: str | None) -> bool:
    """Compare a span with the text beside it, but for white space: browsers change it."""
    return given is None or _squeezed(text[start:end]) == _squeezed(given)


def _squeezed(text: str) -> str:
    """Leave out all white space, also line breaks as Label Studio writes them: with a backslash and an n."""
    return "".join(text.replace("\\n", " ").split())
