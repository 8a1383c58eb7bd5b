"""Reports of an evaluation: rows of scores, further figures and verdicts, as JSON and Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from fresh.highlight import CONTROL_PICTURES
from fresh.metrics.bootstrap import Bounds, Estimate, LengthScore, Measure
from fresh.metrics.classification import Bin, ClassScore
from fresh.reporting.tables import markdown_table
from fresh.text import plural

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
    """Expected calibration error and Brier score."""
    bins: tuple[Bin, ...]
    """Predictions by their probability: a reliability diagram."""
    agreement: tuple[Measure, ...] = ()
    """Agreement with human rationales."""
    n_marked: int = 0
    """Documents with a human rationale."""
    faithfulness: tuple[Measure, ...] = ()
    """Loss of probability when less is read."""
    lengths: tuple[LengthScore, ...] = ()
    """Macro-F1 of rationales of several lengths."""

    @property
    def groups(self) -> dict[str, tuple[Measure, ...]]:
        """All single measures, by the title of their group."""
        return {
            "calibration": self.calibration,
            "when less is read": self.faithfulness,
            f"agreement with people ({plural(self.n_marked, 'document')} with a human rationale)": self.agreement,
        }


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
    """What the audit covers, and what it does not cover."""
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
        rows = [map(markdown_cell, row_cells(row)) for row in self.rows]
        lines = markdown_table(("what is read", "macro-F1", "accuracy", "words kept"), rows)
        for header, cells in self._further_tables():
            if cells:
                lines += ["", *markdown_table(header, [map(markdown_cell, row) for row in cells])]
        return "\n".join((*lines, *(f"\n{note}" for note in self.all_notes))) + "\n"

    def _further_tables(self) -> list[tuple[Sequence[str], Sequence[Sequence[str]]]]:
        """List the header and the rows of every table below the first."""
        classes = next((row.classes for row in self.rows if row.own), ())
        groups = {} if self.figures is None else self.figures.groups
        lengths = () if self.figures is None else self.figures.lengths
        return [
            (("class", "precision", "recall", "F1", "documents"), list(map(_class_cells, classes))),
            *(((title, ""), [(one.name, str(one.figure)) for one in measures]) for title, measures in groups.items()),
            (
                ("words kept, same predictor", "macro-F1"),
                [(f"{score.ratio:.0%}", str(score.macro_f1)) for score in lengths],
            ),
            (("audit", "", ""), [(verdict.name, verdict.found, verdict.says) for verdict in self.verdicts]),
        ]


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


def markdown_cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return text.translate(CONTROL_PICTURES).replace("\n", " ").replace("|", "\\|")


def row_cells(row: Row) -> tuple[str, str, str, str]:
    """Return the cells of a row: its name, and each score with its interval where it has one."""
    kept = f"{row.kept:.1%}"
    if row.kept_between is not None:
        kept += f" ({row.kept_between[0]:.1%}–{row.kept_between[1]:.1%})"
    return (
        row.name,
        str(Estimate.of(row.macro_f1, row.macro_f1_between)),
        str(Estimate.of(row.accuracy, row.accuracy_between)),
        kept,
    )


def _class_cells(score: ClassScore) -> tuple[str, ...]:
    return (
        score.label,
        str(Estimate.of(score.precision, score.precision_between)),
        str(Estimate.of(score.recall, score.recall_between)),
        str(Estimate.of(score.f1, score.f1_between)),
        f"{score.support:,}",
    )
