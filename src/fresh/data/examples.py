"""Documents and examples from rows; rows that cannot be used are left out and counted, or refused."""

import functools
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from fresh.data.annotation import to_table
from fresh.data.annotation.aggregate import AnnotatorSpans, to_word_spans, vote
from fresh.data.config import COLUMNS, DEFAULTS, DataConfig
from fresh.data.readers import STANDARD_INPUT, Row, Source, check_span, is_null, read_rows
from fresh.document import Document, Example, Mask, split_text
from fresh.errors import DataError, RowError
from fresh.highlight import CONTROL_PICTURES
from fresh.rationale import Words
from fresh.text import Spans, plural

MAX_MESSAGES = 3  # in a summary of bad rows
MAX_COLUMNS = 30  # in a message
FIX = "Fix the row, or leave such rows out with skip_bad=True."
Parsed = TypeVar("Parsed")
Split = Callable[[str, bool], tuple[str, Words, Spans]]
"""Splits a text, which may be tokenized, into words and their spans; equal texts become one."""


@dataclass(slots=True)
class BadRows:
    """The number of rows that were left out, with reasons for the first of them."""

    count: int = 0
    total: int = 0
    messages: list[str] = field(default_factory=list)
    widened: int = 0
    """Number of annotated spans that cut a word and were widened to whole words."""

    def add(self, reason: str) -> None:
        """Count a row, and keep the reason if it is among the first."""
        self.count += 1
        if len(self.messages) < MAX_MESSAGES:
            self.messages.append(reason)

    def summary(self) -> str:
        """Summarize what was left out and what was changed."""
        spans = "1 span cut a word and was" if self.widened == 1 else f"{self.widened} spans cut words and were"
        widened = f" {spans} widened to whole words." if self.widened else ""
        if not self.count:
            return f"Read {plural(self.total, 'row')}.{widened}"
        n_more = self.count - len(self.messages)
        more = f" (and {n_more} more)" if n_more else ""
        text = f"Left out {self.count} of {plural(self.total, 'row')}: {' '.join(self.messages)}{more}{widened}"
        return text.translate(CONTROL_PICTURES)


def read_documents(source: Source, config: DataConfig, bad: BadRows | None = None) -> Iterator[Document]:
    """Read documents one at a time; labels and human rationales are ignored.

    :param bad: Collects the rows that are left out if ``skip_bad`` is set.
    """
    return parse_rows(read_rows(source, config=config), config, ("text",), parse_document, bad)


def read_examples(source: Source, config: DataConfig, bad: BadRows | None = None) -> Iterator[Example]:
    """Read labeled documents one at a time.

    :param bad: Collects the rows that are left out if ``skip_bad`` is set.
    """
    return parse_examples([read_rows(source, config=config)], config, bad)


def count_rows(source: Source, config: DataConfig) -> int | None:
    """Count the rows of a file; None if they cannot be counted in advance."""
    if source == STANDARD_INPUT:
        return None
    try:
        return sum(1 for _ in to_table(read_rows(source, config=config), config))
    except DataError:  # reported when the rows are parsed
        return None


def parse_examples(tables: Iterable[Iterator[Row]], config: DataConfig, bad: BadRows | None) -> Iterator[Example]:
    """Parse several tables as one, in which an id may occur only once."""
    bad = bad or BadRows()
    places: dict[str, str] = {}

    def parse(row: Row, columns: DataConfig, split: Split) -> Example:
        document = parse_document(row, columns, split)
        example = Example(document, _parse_label(row, columns.label), *_parse_rationale(row, columns, document, bad))
        if document.id in places:
            problem = f"the id {document.id!r} is already used in {places[document.id]}."
            raise RowError(row.place, problem, "Give each row its own id, or number the rows with id=''.")
        places[document.id] = row.place
        return example

    for rows in tables:
        yield from parse_rows(rows, config, ("text", "label"), parse, bad)


def parse_rows(
    rows: Iterable[Row],
    config: DataConfig,
    needed: Sequence[str],
    parse: Callable[[Row, DataConfig, Split], Parsed],
    bad: BadRows | None,
) -> Iterator[Parsed]:
    """Parse rows one at a time; bad rows are errors, or left out if ``skip_bad`` is set.

    :param needed: Settings whose column must exist.
    """
    bad = bad or BadRows()
    columns: DataConfig | None = None
    # MultiRC asks 4,848 questions about 83 texts, row after row: rows about one text share its words. Only the last
    # text is kept, because a larger cache held refused uploads in memory.
    split = functools.lru_cache(maxsize=1)(split_text)
    n_parsed = 0
    for row in to_table(rows, config):
        bad.total += 1
        try:
            if row.error:
                raise row.error
            # The first row decides, because JSON lines may omit empty columns in later rows.
            columns = columns or _find_columns(row, config, needed)
            parsed = parse(row, columns, split)
        except RowError as error:
            # Rows that annotators set aside, such as skipped tasks, are not bad, and always left out.
            if not config.skip_bad and not error.set_aside:
                raise
            bad.add(error.brief)
        else:
            n_parsed += 1
            yield parsed
    if not n_parsed:
        raise DataError(f"No row can be used. {bad.summary()}")


def _find_columns(row: Row, config: DataConfig, needed: Sequence[str]) -> DataConfig:
    if config.text == DEFAULTS.text and "text" not in row.values and "document" in row.values:
        config = replace(config, text="document")
    for name in COLUMNS:
        column = getattr(config, name)
        was_set = column and name != "label" and column != getattr(DEFAULTS, name)
        if (name in needed or was_set) and column not in row.values:
            names = ", ".join(f"{other!s:.60}" for other in itertools.islice(row.values, MAX_COLUMNS))
            others = f"It has: {names}{' and more' if len(row.values) > MAX_COLUMNS else ''}."
            problem = f"{row.name} has no column {column!r} for the {name}. {others}"
            raise DataError(f"{problem} Name the right one with `{name}`.")
    return config


def parse_document(row: Row, config: DataConfig, split: Split) -> Document:
    """Make a document from a row."""
    text, words, spans = split(_parse_text(row, config.text, config), config.tokenised)
    if not words:
        raise RowError(row.place, "the text has no words.", FIX)
    query: Words = ()
    if not is_null(row.values.get(config.query)):
        # Not with `split`, which would forget the text that the next row may share.
        _, query, _ = split_text(_parse_text(row, config.query, config), config.tokenised)
    cell = row.values.get(config.id)
    id = row.default_id if is_null(cell) else _check_encodable(row, _to_text(cell), "id")
    return Document(text, words, spans, query, id, row.parts)


def _parse_text(row: Row, column: str, config: DataConfig) -> str:
    cell = row.values.get(column)
    if is_null(cell):
        raise RowError(row.place, "the text has no words.", FIX)
    if not isinstance(cell, str):
        raise RowError(row.place, f"the text must be a string, got {cell!r:.60}.", FIX)
    # Checked before it is split, because words take many times the memory of their text.
    if len(cell) > config.row_bytes:
        raise config.row_error(row.place)
    return _check_encodable(row, cell, "text")


def _parse_label(row: Row, column: str) -> str:
    cell = row.values.get(column)
    if isinstance(cell, RowError):  # its annotators set the row aside
        raise cell
    if is_null(cell):
        raise RowError(row.place, "there is no label.", FIX)
    if not isinstance(cell, str | int | float | np.generic):
        raise RowError(row.place, f"a label must be text or a number, got {cell!r:.60}.", FIX)
    return _check_encodable(row, _to_text(cell), "label")


def _check_encodable(row: Row, text: str, what: str) -> str:
    # A lone surrogate can be read from JSON, but not written to any file of results.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(row.place, f"the {what} holds half a character ({error.reason}).", FIX) from error
    return text


def _to_text(cell: object) -> str:
    """Convert a cell to text; a whole number that pandas stores as 1.0 becomes "1"."""
    is_whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    return str(int(cell)) if is_whole else str(cell).strip()  # type: ignore[call-overload]


def _parse_rationale(
    row: Row, config: DataConfig, document: Document, bad: BadRows
) -> tuple[Mask | None, Spans | None]:
    cell = row.values.get(config.rationale)
    if isinstance(cell, AnnotatorSpans):
        mask, n_widened = vote(cell, document, config.agreement, row.place)
        bad.widened += n_widened
        return mask, None
    if is_null(cell):
        return None, None
    try:
        pairs = json.loads(cell) if isinstance(cell, str) else cell  # cells of CSV hold JSON
        if pairs is None:
            return None, None
        spans = [(operator.index(start), operator.index(end)) for start, end in pairs]
    except (TypeError, ValueError, RecursionError) as error:
        fix = "Write pairs of start and end, such as [[0, 4], [10, 17]], or null."
        raise RowError(row.place, f"the rationale is not a list of pairs, got {cell!r:.60}.", fix) from error
    unit, size = ("words", len(document.words)) if config.tokenised else ("characters", len(document.text))
    for start, end in spans:
        check_span(start, end, size, unit, row.place)
    # Spans are kept as people marked them, because ERASER counts adjacent spans separately.
    word_spans = spans if config.tokenised else list(to_word_spans(spans, document))
    evidence = tuple(dict.fromkeys(word_spans if row.evidence is None else row.evidence))
    return Mask.from_spans(word_spans, len(document.words)), evidence
