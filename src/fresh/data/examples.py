"""Rows to documents and examples: which column holds what, and what to do with rows that cannot be used."""

import functools
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from fresh.data.annotation.aggregate import AnnotatorSpans, NoLabel, to_word_spans, vote
from fresh.data.annotation.tools import to_table
from fresh.data.config import DataConfig
from fresh.data.readers import STANDARD_INPUT, ReadLimits, Row, Source, check_span, read_rows
from fresh.data.tables import is_null
from fresh.document import Document, Example, Mask, words_at
from fresh.errors import DataError, RowError
from fresh.highlight import CONTROL_PICTURES
from fresh.rationale import Words
from fresh.text import Spans, split_whitespace, split_words

SHOWN = 3  # messages in a summary
MOST_NAMED = 30  # columns in a message
MEND = "Mend the row, or leave such rows out with skip_bad=True."
Made = TypeVar("Made")


@dataclass(slots=True)
class BadRows:
    """The rows that were left out: how many, and why the first of them."""

    count: int = 0
    total: int = 0
    messages: list[str] = field(default_factory=list)
    widened: int = 0
    """Spans of annotation tools that cut a word."""

    def add(self, reason: str) -> None:
        """Count a row and keep the reason if it is among the first."""
        self.count += 1
        if len(self.messages) < SHOWN:
            self.messages.append(reason)

    def summary(self) -> str:
        """Say what was left out, and what was changed."""
        spans = f"{self.widened} span{'s' if self.widened > 1 else ''} cut a word and"
        widened = f" {spans} {'were' if self.widened > 1 else 'was'} widened to whole words." if self.widened else ""
        if not self.count:
            return f"All {self.total} rows were read.{widened}"
        more = self.count - len(self.messages)
        rest = f" (and {more} more)" if more else ""
        return f"Left out {self.count} of {self.total} rows: {' '.join(self.messages)}{rest}{widened}".translate(
            CONTROL_PICTURES
        )


def read_documents(source: Source, config: DataConfig, bad: BadRows | None = None) -> Iterator[Document]:
    """Read documents one at a time; labels and rationales are not looked at.

    :param bad: Collects the rows that are left out if the settings say ``skip_bad``.
    """
    make = functools.partial(document_in, splitter=Splitter())
    return usable(read_rows(source, limits=config.limits), config, ("text",), make, bad)


def read_examples(source: Source, config: DataConfig, bad: BadRows | None = None) -> Iterator[Example]:
    """Read labelled documents one at a time.

    :param bad: Collects the rows that are left out if the settings say ``skip_bad``.
    """
    return examples_in([read_rows(source, limits=config.limits)], config, bad)


def count_rows(source: Source, config: DataConfig) -> int | None:
    """Count the rows of a file beforehand; None where that cannot be known."""
    if source == STANDARD_INPUT:
        return None
    try:
        return sum(1 for _ in to_table(read_rows(source, limits=config.limits), config))
    except DataError:  # told when the rows are read in earnest
        return None


def examples_in(tables: Iterable[Iterator[Row]], config: DataConfig, bad: BadRows | None) -> Iterator[Example]:
    """Read several tables as one: an id may stand in one place only."""
    bad = bad or BadRows()
    make = functools.partial(_example_in, places={}, bad=bad, splitter=Splitter())
    for rows in tables:
        yield from usable(rows, config, ("text", "label"), make, bad)


def usable(
    rows: Iterable[Row],
    config: DataConfig,
    needed: Sequence[str],
    make: Callable[[Row, DataConfig], Made],
    bad: BadRows | None,
) -> Iterator[Made]:
    """Make something of each row; leave bad rows out where that was asked for."""
    bad = bad or BadRows()
    columns: DataConfig | None = None
    n_made = 0
    for row in to_table(rows, config):
        bad.total += 1
        try:
            if row.error:
                raise row.error
            columns = columns or _find_columns(row, config, needed)
            made = make(row, columns)
        except RowError as error:
            if not config.skip_bad and not error.set_aside:
                raise
            bad.add(error.brief)
        else:
            n_made += 1
            yield made
    if not n_made:
        raise DataError(f"No row can be used. {bad.summary()}")


def _find_columns(row: Row, config: DataConfig, needed: Sequence[str]) -> DataConfig:
    """Make sure that the columns are there which must be; the first row speaks for all."""
    default = DataConfig()
    if config.text == default.text and "text" not in row.values and "document" in row.values:
        config = replace(config, text="document")
    for name in ("text", "label", "query", "id", "rationale"):
        column = getattr(config, name)
        asked = column and name != "label" and column != getattr(default, name)
        if (name in needed or asked) and column not in row.values:
            shown = [f"{found!s:.60}" for found in itertools.islice(row.values, MOST_NAMED)]
            n_more = len(row.values) - len(shown)
            raise DataError(
                f"{row.name} has no column {column!r} for the {name}. It has: {', '.join(shown)}"
                f"{f' and {n_more:,} more' if n_more else ''}. Name the right one with `{name}`."
            )
    return config


def document_in(row: Row, config: DataConfig, splitter: "Splitter") -> Document:
    """Make a document of a row."""
    text, words, spans = splitter.split(_text_in(row, config.text, config.limits), config.tokenised)
    if not words:
        raise RowError(row.place, "the text has no words.", MEND)
    given = row.values.get(config.id)
    id = row.made_id if is_null(given) else _whole_characters(row, _as_text(given), "id")
    return Document(text, words, spans, _query_in(row, config), id, row.joined)


def _example_in(row: Row, config: DataConfig, places: dict[str, str], bad: BadRows, splitter: "Splitter") -> Example:
    """Make an example of a row.

    :param places: Where each id was seen before; this one is added.
    :param bad: Counts the spans that were widened.
    """
    document = document_in(row, config, splitter)
    example = Example(document, _label_in(row, config.label), *_human_in(row, config, document, bad))
    if document.id in places:
        problem = f"the id {document.id!r} stands in {places[document.id]} already."
        raise RowError(row.place, problem, "Give each row its own id, or have ids made with id=''.")
    places[document.id] = row.place
    return example


class Splitter:
    """Splits the texts of one file; rows with the same text as the row before share its words.

    Corpora ask many questions about one text, row after row, and its words are then kept once.
    """

    def __init__(self) -> None:
        self.last: tuple[str, Words, Spans] = ("", (), ())

    def split(self, text: str, tokenised: bool) -> tuple[str, Words, Spans]:
        """Split a text into words."""
        if text != self.last[0]:
            spans = split_whitespace(text) if tokenised else split_words(text)
            self.last = (text, words_at(text, spans), spans)
        return self.last


def _text_in(row: Row, column: str, limits: ReadLimits) -> str:
    """Read a cell that must hold text, and is not too long to be split."""
    cell = row.values.get(column)
    if is_null(cell):
        raise RowError(row.place, "the text has no words.", MEND)
    if not isinstance(cell, str):
        raise RowError(row.place, f"the text must be text, got {cell!r:.60}.", MEND)
    if len(cell) > limits.row_bytes:
        raise limits.row_too_large(row.place)
    return _whole_characters(row, cell, "text")


def _query_in(row: Row, config: DataConfig) -> Words:
    """Read what is asked about the text, if anything is."""
    if is_null(row.values.get(config.query)):
        return ()
    query = _text_in(row, config.query, config.limits)
    return tuple(query.split()) if config.tokenised else words_at(query, split_words(query))


def _label_in(row: Row, column: str) -> str:
    """Read a label; numbers and truth values become text."""
    cell = row.values.get(column)
    if isinstance(cell, NoLabel):
        raise RowError(row.place, cell.problem, MEND, set_aside=True)
    if is_null(cell):
        raise RowError(row.place, "there is no label.", MEND)
    if not isinstance(cell, str | int | float | np.generic):
        raise RowError(row.place, f"a label must be text or a number, got {cell!r:.60}.", MEND)
    return _whole_characters(row, _as_text(cell), "label")


def _whole_characters(row: Row, text: str, what: str) -> str:
    """Refuse half characters, which cannot be written down."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(row.place, f"the {what} holds half a character ({error.reason}).", MEND) from error
    return text


def _as_text(cell: object) -> str:
    """Write a cell as text; a whole number that a table holds as 1.0 is "1"."""
    whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell).strip()  # type: ignore[call-overload]


def _human_in(row: Row, config: DataConfig, document: Document, bad: BadRows) -> tuple[Mask | None, Spans | None]:
    """Read what people marked, as a mask and as their own spans, each once; nothing if the row does not say."""
    marks = row.values.get(config.rationale)
    if isinstance(marks, AnnotatorSpans):
        mask, n_widened = vote(marks, document, config.agreement, row.place)
        bad.widened += n_widened
        return mask, None
    spans = _spans_in(row, config.rationale)
    if spans is None:
        return None, None
    unit, size = ("words", len(document.words)) if config.tokenised else ("characters", len(document.text))
    for start, end in spans:
        check_span(start, end, size, unit, row.place)
    in_words = spans if config.tokenised else list(to_word_spans(spans, document))
    evidence = tuple(dict.fromkeys(in_words if row.evidence is None else row.evidence))
    return Mask.from_spans(in_words, len(document.words)), evidence


def _spans_in(row: Row, column: str) -> list[tuple[int, int]] | None:
    """Read a list of pairs, also where a table holds it as text."""
    cell = row.values.get(column)
    if is_null(cell):
        return None
    try:
        pairs = json.loads(cell) if isinstance(cell, str) else cell
        return None if pairs is None else [(operator.index(start), operator.index(end)) for start, end in pairs]
    except (TypeError, ValueError, RecursionError) as error:
        way_out = "Write pairs of start and end, such as [[0, 4], [10, 17]], or null."
        raise RowError(row.place, f"the rationale is not a list of pairs, got {cell!r:.60}.", way_out) from error
