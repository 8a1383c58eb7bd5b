"""Reports of an evaluation: rows of scores, further figures and verdicts, as JSON and Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from fresh.metrics.bootstrap import Bounds, Estimate, LengthScore, Measure
from fresh.metrics.classification import Bin, ClassScore
from fresh.reporting.tables import markdown_table

Found = Literal["holds", "broken", "look here", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check of an audit found."""

    name: str
    found: Found
    says: str
    """The finding, in one sentence."""
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.found not in get_args(Found):
            raise ValueError(f"found must be one of {', '.join(get_args(Found))}, got {self.found!r} ({self.name}).")


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of one model, or of one baseline."""

    name: str
    macro_f1: float
    accuracy: float
    kept: float
    """Share of all words that were read."""
    classes: tuple[ClassScore, ...] = ()
    macro_f1_between: Bounds | None = None
    accuracy_between: Bounds | None = None
    kept_between: Bounds | None = None
    own: bool = False
    """Whether this is the model that the report is about; the other rows are baselines."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of the model itself, in addition to its row."""

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    """One row a gold label, one column a predicted label."""
    calibration: tuple[Measure, ...]
    bins: tuple[Bin, ...]
    """Predictions by their probability: a reliability diagram."""
    agreement: tuple[Measure, ...] = ()
    n_marked: int = 0
    """Documents with a human rationale."""
    faithfulness: tuple[Measure, ...] = ()
    """Loss of probability when less is read."""
    lengths: tuple[LengthScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, over the same documents, with the figures and verdicts of the model."""

    n_documents: int
    rows: tuple[Row, ...]
    unread: float = 0.0
    """Share of all words that truncation left unread."""
    notes: tuple[str, ...] = ()
    """What to know before relying on the figures."""
    figures: Figures | None = None
    verdicts: tuple[Verdict, ...] = ()
    guarantee: str = ""
    """What the audit covers, and what not."""
    measured_on: str = ""
    """Digest of the documents, to tell later whether others are the same."""

    @property
    def own(self) -> Row:
        """The row of the model itself."""
        return next(row for row in self.rows if row.own)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, preceded by the share of words that truncation left unread."""
        unread = (f"Truncation left {self.unread:.1%} of the words unread.",) if self.unread else ()
        return (*unread, *self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Rebuild a report from JSON, also from that of a version without figures or verdicts."""
        report: Self = _rebuild(cls, record)
        return report

    def to_json(self) -> str:
        """Return indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Return all tables and notes as Markdown."""
        classes = [
            (one.label, *(str(estimate(one, name)) for name in ("precision", "recall", "f1")), f"{one.support:,}")
            for row in self.rows
            if row.own
            for one in row.classes
        ]
        tables: list[tuple[tuple[str, ...], Sequence[Sequence[str]]]] = [
            (("what is read", "macro-F1", "accuracy", "words kept"), [*map(row_cells, self.rows)]),
            (("class", "precision", "recall", "F1", "documents"), classes),
        ]
        if self.figures is not None:
            people = f"agreement with people ({self.figures.n_marked:,} documents with a human rationale)"
            for title, measures in (
                ("calibration", self.figures.calibration),
                ("when less is read", self.figures.faithfulness),
                (people, self.figures.agreement),
            ):
                tables.append(((title, ""), [(one.name, str(one.figure)) for one in measures]))
            lengths = [(f"{score.ratio:.0%}", str(score.macro_f1)) for score in self.figures.lengths]
            tables.append((("words kept, same predictor", "macro-F1"), lengths))
        tables.append((("audit", "", ""), [(one.name, one.found, one.says) for one in self.verdicts]))
        shown = ["\n".join(markdown_table(header, cells)) for header, cells in tables if cells]
        return "\n\n".join((*shown, *self.all_notes)) + "\n"


def _rebuild(kind: Any, value: Any) -> Any:
    """Rebuild a value of some type from JSON: dataclasses from objects, tuples from arrays."""
    if is_dataclass(kind):
        # A field that an older version did not write keeps its default.
        kinds = get_type_hints(kind)
        return kind(**{name: _rebuild(kinds[name], item) for name, item in value.items()})  # type: ignore[operator]
    if value is not None and get_origin(kind) is UnionType:  # X | None
        return _rebuild(get_args(kind)[0], value)
    if value is not None and get_origin(kind) is tuple:
        return tuple(_rebuild(get_args(kind)[0], item) for item in value)
    return value


def row_cells(row: Row) -> tuple[str, str, str, str]:
    """Return the cells of a row: its name, and each score with its interval where it has one."""
    kept = estimate(row, "kept").show("{:.1%}".format)
    return row.name, str(estimate(row, "macro_f1")), str(estimate(row, "accuracy")), kept


def estimate(scores: Row | ClassScore | Bin, name: str) -> Estimate:
    """Return a score with its interval, if known."""
    return Estimate.of(getattr(scores, name), getattr(scores, f"{name}_between"))
