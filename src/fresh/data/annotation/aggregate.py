"""Annotations of one text by several people, and the label and rationale that follow from them."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Document, Mask
from fresh.errors import RowError
from fresh.text import Spans

FIX = "Fix it in the tool and export the file again, or leave such rows out with skip_bad=True."


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one annotator said about a text."""

    spans: Spans | None
    """Marked spans, in characters; None if the annotator was not asked for any."""
    choices: Mapping[str, Any]
    """The class chosen for each question, by the name of the question."""


@dataclass(frozen=True, slots=True)
class AnnotatorSpans:
    """The spans that each annotator marked in a text, in characters."""

    annotators: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class NoLabel:
    """Replaces a label that annotators chose not to give; such a row is left out where a label is needed."""

    problem: str


def parse_row(row: Row, tool: str, parse: Callable[[], Row]) -> Row:
    """Parse a row; if that fails, the row keeps the error, and reading goes on with the next row."""
    if row.error:
        return row
    try:
        return parse()
    except RowError as error:
        problem = error
    except (AttributeError, KeyError, TypeError) as error:
        problem = RowError(row.place, f"this is not the format that {tool} writes ({error!r:.80}).", FIX)
    return replace(row, values={}, error=problem)


def merge_annotations(
    row: Row, fields: Mapping[str, Any], annotations: Sequence[Annotation], config: DataConfig
) -> Row:
    """Merge all annotations of a text into one row: the majority's label, and the spans of each annotator.

    A text in which nobody marked a span has no rationale.
    """
    values = dict(fields)
    questions = sorted({name for annotation in annotations for name in annotation.choices})
    # A project with one question needs no setting to say which question gives the label.
    unnamed = questions and config.label == DataConfig().label and config.label not in {*questions, *fields}
    if unnamed and len(questions) > 1:
        problem = f"it has the questions {', '.join(questions)}."
        raise RowError(row.place, problem, "Name the one that gives the label with `label`.")
    # Annotators who left a question out have no vote on it.
    for question in questions:
        chosen = [annotation.choices[question] for annotation in annotations if question in annotation.choices]
        name = config.label if unnamed else question
        values[name] = _majority_label(row, chosen) if name == config.label else chosen[0]
    if config.rationale:
        # An annotator who marked nothing votes against every word; one who was not asked does not vote.
        spans = tuple(annotation.spans for annotation in annotations if annotation.spans is not None)
        values[config.rationale] = AnnotatorSpans(spans) if any(spans) else None
    return replace(row, values=values)


def single_choice(chosen: Sequence[Any]) -> Any:
    """Unwrap the only class; several stay a tuple, which is refused where it is the label."""
    if len(chosen) == 1 and isinstance(chosen[0], str | int | float):
        return chosen[0]
    return tuple(map(str, chosen)) or None


def _majority_label(row: Row, chosen: Sequence[Any]) -> Any:
    first, *others = Counter(choice for choice in chosen if choice is not None).most_common(2) or [(None, 0)]
    if others and others[0][1] == first[1]:
        raise RowError(row.place, f"its annotators disagree on the label: {first[0]} or {others[0][0]}.", FIX)
    return first[0]


def is_rationale_label(config: DataConfig, *names: str) -> bool:
    """Decide whether spans with such a label count: all do, unless the setting ``rationale`` names one label."""
    return config.rationale == DataConfig().rationale or config.rationale in names


def vote(marked: AnnotatorSpans, document: Document, agreement: float, place: str) -> tuple[Mask, int]:
    """Keep the words that enough annotators marked.

    :param agreement: Share of the annotators who must have marked a word.
    :param place: Names the row in errors.
    :return: The mask, and the number of spans that cut a word and were widened to whole words.
    """
    ranges = [_word_ranges(spans, document) for spans in marked.annotators]
    pairs = list(zip(chain.from_iterable(marked.annotators), chain.from_iterable(ranges), strict=True))
    raise_span_errors(place, _find_span_errors(pairs, document.text))
    votes = np.zeros(len(document.words), dtype=np.int64)
    for spans in ranges:
        votes += Mask.from_spans(spans, len(document.words)).kept
    # Exact arithmetic: 0.7 of 10 annotators are 7, where 0.7 * 10 rounds to more in floating point.
    needed = max(1, math.ceil(len(ranges) * Fraction(str(agreement))))
    return Mask(votes >= needed), sum(_cuts_word(span, words, document) for span, words in pairs)


def _find_span_errors(pairs: Iterable[tuple[tuple[int, int], tuple[int, int]]], text: str) -> Iterator[str]:
    for (start, end), (first, after) in pairs:
        if not 0 <= start < end <= len(text):
            yield f"the span ({start}, {end}) does not fit a text of {len(text)} characters."
        elif first >= after:
            yield f"the span ({start}, {end}) holds no word, only {text[start:end]!r:.40}."


def raise_span_errors(place: str, problems: Iterable[str]) -> None:
    """Refuse a row whose spans cannot be used: name the first of the problems and count the others."""
    first, *more = [*problems] or [""]
    if first:
        rest = f" (and {len(more)} more bad span{'s' if len(more) > 1 else ''})" if more else ""
        raise RowError(place, first + rest, FIX)


def to_word_spans(spans: Iterable[tuple[int, int]], document: Document) -> Iterator[tuple[int, int]]:
    """Convert spans in characters to spans in words: every word that a span overlaps."""
    return ((first, after) for first, after in _word_ranges(spans, document) if first < after)


def _word_ranges(spans: Iterable[tuple[int, int]], document: Document) -> list[tuple[int, int]]:
    """Find the first word that each span overlaps, and the word after the last; first >= after if there is none."""
    starts, ends = np.array(document.spans).T
    return [
        (int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))) for start, end in spans
    ]


def _cuts_word(span: tuple[int, int], words: tuple[int, int], document: Document) -> bool:
    return document.spans[words[0]][0] < span[0] or span[1] < document.spans[words[1] - 1][1]


def parse_span(row: Row, span: Mapping[str, Any]) -> tuple[int, int]:
    """Read the start and the end of a span."""
    start, end = span.get("start"), span.get("end")
    if type(start) is not int or type(end) is not int:
        raise RowError(row.place, f"a span needs start and end, got {dict(span)!r:.60}.", FIX)
    return start, end


def check_span_texts(row: Row, text: str, spans: Sequence[tuple[int, int]], expected: Sequence[str | None]) -> None:
    """Refuse spans that do not hold the text that the tool wrote next to them."""
    wrong = (
        f"the span ({start}, {end}) should hold {words!r:.40}, but the text there is {text[start:end]!r:.40}."
        for (start, end), words in zip(spans, expected, strict=True)
        if not matches_text(text, start, end, words)
    )
    raise_span_errors(row.place, wrong)


def matches_text(text: str, start: int, end: int, expected: str | None) -> bool:
    """Compare the text of a span with the one that the tool wrote, without white space, which browsers change."""
    return expected is None or _without_space(text[start:end]) == _without_space(expected)


def _without_space(text: str) -> str:
    # Label Studio writes a line break as a backslash and an n.
    return "".join(text.replace("\\n", " ").split())
