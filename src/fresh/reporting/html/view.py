"""All that the page shows, as plain values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fresh.document import Example, Explanation
from fresh.metrics.classification import Bin, ClassScore
from fresh.metrics.estimate import Estimate, LengthScore, Measure
from fresh.reporting.verdict import Verdict
from fresh.text import Spans

Facts = tuple[tuple[str, str], ...]
"""Names and values, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class HeadlineRow:
    """How well one way of reading did."""

    name: str
    macro_f1: Estimate
    accuracy: Estimate
    kept: Estimate
    """Share of all words that was read."""
    own: bool = False
    """Whether this is the model that the page is about; the others are what it is held against."""


@dataclass(frozen=True, slots=True)
class LengthCurve:
    """How well longer and longer rationales did."""

    points: tuple[LengthScore, ...]
    full_text: float | None = None
    """Macro-F1 of reading everything, to compare with."""

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("A curve has at least one point. Leave the curve out where nothing was measured.")


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often each label was given to documents of each label."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """One row a gold label, one column a predicted label."""

    def __post_init__(self) -> None:
        n_labels = len(self.labels)
        if not n_labels or [len(row) for row in self.counts] != [n_labels] * n_labels:
            widths = [len(row) for row in self.counts]
            raise ValueError(f"A confusion matrix of {n_labels} labels is square, got rows of lengths {widths}.")


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """How well rationales agree with those of people, as far as it was measured."""

    name: str
    precision: Estimate | None = None
    recall: Estimate | None = None
    token_f1: Estimate | None = None
    iou_f1: Estimate | None = None
    auprc: Estimate | None = None
    own: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """How far two models are apart in one measure."""

    first: str
    second: str
    measure: str
    difference: Estimate
    """The first less the second."""
    p: float | None
    """None where the test cannot be made."""
    says: str = ""
    """How the test went, or why it cannot be made."""
    adjusted: float | None = None
    """The same p after Holm's correction."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document with what was read in it, what was answered, and what people say."""

    id: str
    text: str
    spans: Spans
    """Where its words stand, in characters."""
    kept: Spans
    """Runs of words that were read, as `Mask.spans` gives them."""
    label: str
    """What was predicted."""
    probabilities: Mapping[str, float]
    gold: str | None = None
    human: Spans | None = None
    """Runs of words that people marked, where they were asked."""
    query: str = ""

    @classmethod
    def of(cls, example: Example, explanation: Explanation) -> Self:
        """Show an example as it was explained."""
        document = example.document
        return cls(
            id=document.id,
            text=document.text,
            spans=document.spans,
            kept=explanation.mask.spans,
            label=explanation.prediction.label,
            probabilities=explanation.prediction.probabilities,
            gold=example.label,
            human=None if example.human is None else example.human.spans,
            query=" ".join(document.query),
        )

    def __post_init__(self) -> None:
        self.check_runs("kept", self.kept)
        self.check_runs("human", self.human or ())
        if self.label not in self.probabilities:
            raise ValueError(f"Document {self.id!r}: the predicted label {self.label!r} has no probability.")
        if not all(map(math.isfinite, self.probabilities.values())):
            raise ValueError(f"Document {self.id!r}: probabilities must be finite, got {dict(self.probabilities)}.")

    def check_runs(self, name: str, runs: Spans) -> None:
        """Refuse runs that are out of order, touch each other, or go past the last word."""
        before = -1
        for start, end in runs:
            if not before < start < end <= len(self.spans):
                raise ValueError(
                    f"Document {self.id!r}: the run ({start}, {end}) of {name} does not fit its {len(self.spans)} "
                    "words and the run before it. Give runs as Mask.spans does."
                )
            before = end


@dataclass(frozen=True, slots=True)
class View:
    """A page: the headline table and the documents, and whatever else is known."""

    title: str
    headline: tuple[HeadlineRow, ...]
    documents: tuple[DocumentView, ...]
    data: str = ""
    """What the documents were taken from."""
    n_documents: int | None = None
    """How many documents were measured, where the page shows only some of them."""
    when: str = ""
    settings: Facts = ()
    versions: Facts = ()
    classes: tuple[ClassScore, ...] = ()
    curve: LengthCurve | None = None
    confusion: Confusion | None = None
    bins: tuple[Bin, ...] = ()
    """Answers by how sure the model was."""
    calibration: tuple[Measure, ...] = ()
    """How far the model is from being right as often as it is sure."""
    less_read: tuple[Measure, ...] = ()
    """What it costs to read less."""
    agreement: tuple[AgreementRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    guarantee: str = ""
    """What the audit covers and what it does not; empty lines part paragraphs."""
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    whiskers: str = "Whiskers are 95 % intervals."
    """What the ends of whiskers are, in a sentence."""
    tests: str = "Paired tests on the same documents"
    """How models were compared."""

    def __post_init__(self) -> None:
        if not self.headline:
            raise ValueError("A page has a headline table. Give at least the row of the model itself.")
        if not self.documents:
            raise ValueError("A page shows documents. Give at least one.")
        if self.n_documents is not None and self.n_documents < len(self.documents):
            raise ValueError(
                f"n_documents is {self.n_documents}, but the page shows {len(self.documents)}. "
                "Leave it out where all documents are shown."
            )
