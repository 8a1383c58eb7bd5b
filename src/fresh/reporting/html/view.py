"""Everything that the page shows, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass

from fresh.document import Example, Explanation
from fresh.metrics.bootstrap import Estimate
from fresh.metrics.classification import ClassScore
from fresh.reporting.report import Figures, Verdict

# Names and values, in the order in which they are shown.
Facts = tuple[tuple[str, str], ...]
# A document with its gold label, the words that were read and, perhaps, those that people marked.
ShownDocument = tuple[Example, Explanation]


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of one model, of the runs of one, or of a baseline."""

    name: str
    macro_f1: Estimate
    accuracy: Estimate
    kept: Estimate
    """Share of all words that were read."""
    token_f1: Estimate | None = None
    """Agreement with people, where a comparison measured it."""
    runs: tuple[str, ...] = ()
    """The runs that the scores are means over, if several."""
    own: bool = False
    """Whether this is the model that the page is about, not a baseline."""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """How well rationales agree with those of people."""

    name: str
    figures: Mapping[str, Estimate]
    """By the measure."""
    own: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """The difference between two models (first minus second) in one measure, and its test if one is possible."""

    first: str
    second: str
    measure: str
    difference: Estimate
    p: float | None
    says: str = ""
    """How the test was made, or why none is possible."""
    adjusted: float | None = None
    """The same p after Holm's correction."""


@dataclass(frozen=True, slots=True)
class View:
    """A page: scores and documents, and everything else that is known."""

    title: str
    headline: tuple[ScoreRow, ...]
    documents: tuple[ShownDocument, ...]
    data: str = ""
    """The source of the documents."""
    n_documents: int | None = None
    """How many documents were measured, if not all are shown."""
    when: str = ""
    settings: Facts = ()
    versions: Facts = ()
    classes: tuple[ClassScore, ...] = ()
    figures: Figures | None = None
    full_text: float | None = None
    """Macro-F1 of reading everything, drawn beside the scores of several lengths."""
    agreement: tuple[AgreementRow, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    guarantee: str = ""
    """What the audit covers, and what not; empty lines separate paragraphs."""
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    whiskers: str = "Whiskers are 95 % intervals."
    tests: str = "Paired tests on the same documents"
