"""What to know of the test documents before relying on what is measured on them."""

from collections.abc import Iterator, Sequence

from fresh.document import Example
from fresh.rationalizer import Rationalizer

FEW = 30
"""Documents below which intervals are too wide to say much, and not wide enough."""


def data_warnings(model: Rationalizer, examples: Sequence[Example]) -> tuple[str, ...]:
    """Say what is wrong with documents to measure a model on: few, of one class, trained on, or without marks."""
    return (*trained_on(model, examples), *_of_one_class(examples), *_few(examples), *_unmarked(examples))


def trained_on(model: Rationalizer, examples: Sequence[Example]) -> Iterator[str]:
    """Warn of documents that the model was trained with."""
    n_seen = 0 if model.fingerprints is None else model.fingerprints.count(example.document for example in examples)
    if n_seen:
        yield (
            f"{n_seen:,} of {len(examples):,} documents were in the data that the model was trained with (train or "
            "dev), so the figures are too good. Measure on documents that are new to it."
        )


def _of_one_class(examples: Sequence[Example]) -> Iterator[str]:
    """Warn of documents that all have one label."""
    labels = {example.label for example in examples}
    if len(labels) == 1:
        yield (
            f"All documents have the label {labels.pop()!r}: macro-F1 counts classes of which there are none as 0, and "
            "nothing here tells how often other labels are given wrongly. Measure on documents of all classes."
        )


def _unmarked(examples: Sequence[Example]) -> Iterator[str]:
    """Warn of human rationales that are empty, beside others that are not."""
    marked = [bool(example.human.kept.any()) for example in examples if example.human is not None]
    n_empty = len(marked) - sum(marked)
    if 0 < n_empty < len(marked):
        yield (
            f"{n_empty:,} of {len(marked):,} human rationales are empty: all that the model keeps there counts against "
            "it. Where nobody looked for words, give no rationale (null) in place of an empty one."
        )


def _few(examples: Sequence[Example]) -> Iterator[str]:
    """Warn of too few documents."""
    if len(examples) < FEW:
        count = "1 document is" if len(examples) == 1 else f"{len(examples)} documents are"
        yield (
            f"{count} few: with less than {FEW}, one answer more or less moves every figure, and intervals are rough."
        )
