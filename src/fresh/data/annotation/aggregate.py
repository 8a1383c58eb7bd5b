"""Annotations of one text by several people, merged into one label and one rationale."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fresh.data.config import DEFAULTS, DataConfig
from fresh.data.readers import Row
from fresh.document import Document, Mask
from fresh.errors import RowError
from fresh.text import Spans, plural

RATIONALE_LABEL = "RATIONALE"
FIX = "Fix it in the tool and export the file again, or leave such rows out with skip_bad=True."


class Annotation(NamedTuple):
    """The answer of one annotator about a text."""

    spans: Spans | None
    """Marked spans, in characters; None if the annotator was not asked to mark any."""
    choices: Mapping[str, Any]
    """The chosen class by the name of the question."""


@dataclass(frozen=True, slots=True)
class AnnotatorSpans:
    """The spans that each annotator marked in a text, in characters."""

    annotators: tuple[Spans, ...]


def merge(
    row: Row, fields: Mapping[str, Any], annotations: Sequence[Annotation], config: DataConfig, set_aside: str = ""
) -> Row:
    """Merge the answers about one text into a row with one label and one rationale.

    :param fields: The columns of the text, except for answers.
    :param set_aside: Why its annotators chose not to give a label, if they did. Where a label is needed, the row is
        left out and counted, whatever `skip_bad` says.
    """
    values = dict(fields)
    if set_aside:
        values[config.label] = RowError(row.place, set_aside, FIX, set_aside=True)
    questions = sorted({name for annotation in annotations for name in annotation.choices})
    # A project with one question needs no setting: that question gives the label.
    unnamed = questions and config.label == DEFAULTS.label and config.label not in {*questions, *values}
    if unnamed and len(questions) > 1:
        problem = f"it has the questions {', '.join(questions)}."
        raise RowError(row.place, problem, "Name the one that gives the label with `label`.")
    for question in questions:
        name = config.label if unnamed else question
        # Annotators who skipped a question have no vote on it.
        chosen = [annotation.choices[question] for annotation in annotations if question in annotation.choices]
        votes = Counter(choice for choice in chosen if choice is not None).most_common(2)
        if name == config.label and len({n_votes for _, n_votes in votes}) < len(votes):
            tied = " or ".join(str(choice) for choice, _ in votes)
            raise RowError(row.place, f"its annotators disagree on the label: {tied}.", FIX)
        values[name] = chosen[0] if name != config.label else votes[0][0] if votes else None
    if config.rationale:
        # An annotator who marked nothing votes against every word; one who was not asked to mark does not vote.
        spans = tuple(annotation.spans for annotation in annotations if annotation.spans is not None)
        # A text without a marked span has no rationale, rather than an empty one.
        values[config.rationale] = AnnotatorSpans(spans) if any(spans) else None
    return replace(row, values=values)


def single_choice(chosen: Sequence[Any]) -> Any:
    """Unwrap the only class; several classes become a tuple, which is refused as a label."""
    if len(chosen) == 1 and isinstance(chosen[0], str | int | float):
        return chosen[0]
    return tuple(map(str, chosen)) or None


def vote(marked: AnnotatorSpans, document: Document, agreement: float, place: str) -> tuple[Mask, int]:
    """Keep the words that enough annotators marked.

    :param agreement: Share of the annotators who must have marked a word.
    :param place: The row, for error messages.
    :return: The mask, and the number of spans that cut a word and were widened to whole words.
    """
    votes = np.zeros(len(document.words), dtype=np.int64)
    n_widened = 0
    for spans in marked.annotators:
        ranges = _word_ranges(spans, document)
        for (start, end), (first, after) in zip(spans, ranges, strict=True):
            if not 0 <= start < end <= len(document.text):
                problem = f"the span ({start}, {end}) does not fit a text of {plural(len(document.text), 'character')}."
                raise RowError(place, problem, FIX)
            if first >= after:
                problem = f"the span ({start}, {end}) holds no word, only {document.text[start:end]!r:.40}."
                raise RowError(place, problem, FIX)
            n_widened += document.spans[first][0] < start or end < document.spans[after - 1][1]
        votes += Mask.from_spans(ranges, len(document.words)).kept
    # Exact arithmetic: 0.7 of 10 annotators are 7, but 0.7 * 10 rounds to more in floating point.
    needed = max(1, math.ceil(len(marked.annotators) * Fraction(str(agreement))))
    return Mask(votes >= needed), n_widened


def to_word_spans(spans: Iterable[tuple[int, int]], document: Document) -> Iterator[tuple[int, int]]:
    """Convert spans in characters to spans of the words that they overlap."""
    return ((first, after) for first, after in _word_ranges(spans, document) if first < after)


def _word_ranges(spans: Iterable[tuple[int, int]], document: Document) -> list[tuple[int, int]]:
    """Find the words that each span overlaps, first and after the last; first >= after if there are none."""
    starts, ends = np.array(document.spans).T
    return [
        (int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(starts, end))) for start, end in spans
    ]


def parse_spans(
    row: Row,
    text: Any,
    marked: Iterable[tuple[Mapping[str, Any], Sequence[str]]],
    config: DataConfig,
    recount: Callable[[str, Spans], Iterable[tuple[int, int] | None]] | None = None,
    fix: str = FIX,
) -> Spans:
    """Return the spans that are rationales: all, unless the setting ``rationale`` names another label.

    :param marked: Each span as the tool exports it, with start, end and perhaps its text, and the span's labels.
    :param recount: Converts spans as some versions of the tool count them; only the text next to each span shows it.
    """
    chosen = [span for span, labels in marked if config.rationale in (DEFAULTS.rationale, *labels)]
    spans: tuple[tuple[Any, Any], ...] = tuple((span.get("start"), span.get("end")) for span in chosen)
    wrong = next((span for span in spans if set(map(type, span)) != {int}), None)
    if wrong is not None:
        raise RowError(row.place, f"a span needs start and end, in characters, got {wrong!r:.60}.", fix)
    if not isinstance(text, str):
        return spans  # the missing text is reported where texts are read
    expected = [span.get("span", span.get("text")) for span in chosen]
    if recount and not all(matches_text(text, *pair) for pair in zip(spans, expected, strict=True)):
        recounted = [span for span in recount(text, spans) if span is not None]
        pairs = zip(recounted, expected, strict=False)
        if len(recounted) == len(spans) and all(matches_text(text, *pair) for pair in pairs):
            return tuple(recounted)
    check_span_texts(row, text, spans, expected)
    return spans


def check_span_texts(row: Row, text: str, spans: Spans, expected: Sequence[str | None]) -> None:
    """Refuse spans that do not hold the text that the tool wrote next to them."""
    for span, words in zip(spans, expected, strict=True):
        if not matches_text(text, span, words):
            actual = text[slice(*span)]
            problem = f"the span {span} should hold {words!r:.40}, but the text there is {actual!r:.40}."
            raise RowError(row.place, problem, FIX)


def matches_text(text: str, span: tuple[int, int], expected: str | None) -> bool:
    """Compare the text of a span with what the tool wrote, except for white space, which browsers change."""
    # Label Studio writes a line break as a backslash and an n.
    found, wanted = (words.replace("\\n", " ").split() for words in (text[slice(*span)], expected or ""))
    return expected is None or "".join(found) == "".join(wanted)
