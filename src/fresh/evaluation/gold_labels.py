"""What answers are held against: gold labels, and which of them are about one text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fresh.document import Example, Mask
from fresh.metrics.bootstrap import accuracy_interval, class_intervals, macro_f1_interval, numbered, ratio_interval
from fresh.metrics.classification import ClassScore, accuracy, class_scores, macro_f1
from fresh.metrics.estimate import Bounds
from fresh.metrics.resampling import Numbers, number_texts, share_texts
from fresh.rationale import Prediction
from fresh.reporting.report import Row


@dataclass(frozen=True, slots=True, eq=False)
class GoldLabels:
    """The gold labels of documents, and all there is to measure answers by."""

    gold: Sequence[str]
    labels: Sequence[str]
    """All classes, also those that no document has."""
    texts: Numbers | None
    """Number of the text of each document, where several have one."""

    @classmethod
    def of(cls, examples: Sequence[Example], labels: Sequence[str]) -> "GoldLabels":
        """Take gold labels and texts from examples."""
        texts = number_texts(example.document.words for example in examples)
        return cls([example.label for example in examples], labels, texts)

    @property
    def n_texts(self) -> int | None:
        """How many different texts there are, where several documents have one."""
        return None if self.texts is None else len(set(self.texts.tolist()))

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what intervals draw where several documents are one text, say with several queries."""
        if self.n_texts is None:
            return ()
        drawn = "Intervals draw whole texts" if self.n_texts > 1 else "Intervals say nothing about other texts"
        return (f"{share_texts(len(self.gold), self.n_texts)}. {drawn}.",)

    def numbered(self, given: Sequence[str]) -> Numbers:
        """Turn labels into their places."""
        return numbered(given, self.labels)

    def row(self, name: str, answers: Sequence[Prediction], kept: float, kept_between: Bounds | None = None) -> Row:
        """Make a row of a table."""
        given = [answer.label for answer in answers]
        numbers = self.numbered(self.gold), self.numbered(given)
        return Row(
            name,
            macro_f1(self.gold, given, self.labels),
            accuracy(self.gold, given),
            kept,
            tuple(self.class_scores(given)),
            macro_f1_interval(*numbers, len(self.labels), texts=self.texts).bounds,
            accuracy_interval(*numbers, texts=self.texts).bounds,
            kept_between,
        )

    def row_of(self, name: str, answers: Sequence[Prediction], masks: Sequence[Mask]) -> Row:
        """Make a row of what was read through masks."""
        n_kept, n_words = [int(mask.kept.sum()) for mask in masks], [len(mask) for mask in masks]
        kept = ratio_interval(n_kept, n_words, texts=self.texts)
        return self.row(name, answers, kept.value, kept.bounds)

    def class_scores(self, given: Sequence[str]) -> Iterator[ClassScore]:
        """Score each class by itself, with intervals."""
        scores = class_scores(self.gold, given, self.labels)
        found = class_intervals(self.numbered(self.gold), self.numbered(given), len(self.labels), texts=self.texts)
        for score, (precision, recall, f1) in zip(scores, found, strict=True):
            yield replace(score, precision_between=precision.bounds, recall_between=recall.bounds, f1_between=f1.bounds)


def check_labels(labels: Sequence[str], examples: Sequence[Example]) -> None:
    """Refuse labels that a model cannot give.

    :param labels: Those that it learned.
    """
    strange = Counter(example.label for example in examples if example.label not in labels)
    if strange:
        named = ", ".join(f"{label} ({count:,})" for label, count in strange.items())
        where = next(example.document.id for example in examples if example.label in strange)
        raise ValueError(
            f"These labels of the data were never learned: {named}. The first such document is {where!r}. "
            f"Learned were: {', '.join(labels)}. Leave such documents out, or train a model for them."
        )
