"""What was measured: rows of a table and other figures, as JSON and Markdown."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from fresh.highlight import CONTROL_PICTURES
from fresh.metrics.classification import Bin, ClassScore
from fresh.metrics.estimate import Bounds, Estimate, Interval, LengthScore, Measure
from fresh.reporting.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """How well one way of reading did."""

    name: str
    macro_f1: float
    accuracy: float
    kept: float
    """Share of all words that was read."""
    classes: tuple[ClassScore, ...] = ()
    macro_f1_between: Bounds | None = None
    accuracy_between: Bounds | None = None
    kept_between: Bounds | None = None
    own: bool = False
    """Whether this is the model that the report is about; the others are what it is held against."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read it back."""
        classes = tuple(ClassScore(**_with_tuples(score)) for score in record["classes"])
        return cls(**{**_with_tuples(record), "classes": classes})


def _with_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    """Read the ends of intervals back, which JSON makes lists."""
    return {
        name: tuple(value) if name.endswith("_between") and value is not None else value
        for name, value in record.items()
    }


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of the model itself, beside its row of the table."""

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    """How often documents of each label (a row) were given each label (a column)."""
    calibration: tuple[Measure, ...]
    """Expected calibration error and Brier score."""
    bins: tuple[Bin, ...]
    """Answers by how sure the model was."""
    agreement: tuple[Measure, ...] = ()
    """How far rationales are what people marked."""
    n_marked: int = 0
    """Documents that people had marked."""
    faithfulness: tuple[Measure, ...] = ()
    """How much an answer loses when less is read."""
    lengths: tuple[LengthScore, ...] = ()
    """Macro-F1 of rationales of several lengths."""

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read it back."""
        measures = {
            name: tuple(Measure(item["name"], Interval(**item["figure"])) for item in record[name])
            for name in ("calibration", "agreement", "faithfulness")
        }
        return cls(
            labels=tuple(record["labels"]),
            confusion=tuple(map(tuple, record["confusion"])),
            bins=tuple(Bin(**_with_tuples(item)) for item in record["bins"]),
            n_marked=record["n_marked"],
            lengths=tuple(LengthScore(item["ratio"], Interval(**item["macro_f1"])) for item in record["lengths"]),
            **measures,
        )


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, over the same documents."""

    n_documents: int
    rows: tuple[Row, ...]
    unread: float = 0.0
    """Share of the words of all documents that truncating left unread."""
    notes: tuple[str, ...] = ()
    """What somebody should know who relies on the figures."""
    figures: Figures | None = None
    verdicts: tuple[Verdict, ...] = ()
    """What an audit found."""
    guarantee: str = ""
    """What the audit covers and what it does not."""
    measured_on: str = ""
    """Digest of the documents, so that one can tell later whether others are the same."""

    def to_dict(self) -> dict[str, Any]:
        """Turn it into plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read it back."""
        figures = record.get("figures")
        return cls(
            record["n_documents"],
            tuple(map(Row.from_dict, record["rows"])),
            record["unread"],
            tuple(record["notes"]),
            None if figures is None else Figures.from_dict(figures),
            tuple(Verdict(**{**item, "evidence": tuple(item["evidence"])}) for item in record.get("verdicts", ())),
            record.get("guarantee", ""),
            record.get("measured_on", ""),
        )

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Lay it out as tables."""
        head = ["| what is read | macro-F1 | accuracy | words kept |", "| --- | --- | --- | --- |"]
        body = [f"| {' | '.join(map(in_cell, cells(row)))} |" for row in self.rows]
        return "\n".join((*head, *body, *self.tables(), *(f"\n{line}" for line in self.remarks))) + "\n"

    def tables(self) -> list[str]:
        """Lay out what is known beside the rows."""
        return [*self.class_table(), *self.figure_tables(), *self.verdict_table()]

    def class_table(self) -> list[str]:
        """Lay out how well the model found each class."""
        classes = next((row.classes for row in self.rows if row.own), ())
        head = ["", "| class | precision | recall | F1 | documents |", "| --- | --- | --- | --- | --- |"]
        body = [f"| {' | '.join(map(in_cell, _class_cells(score)))} |" for score in classes]
        return [*head, *body] if body else []

    def verdict_table(self) -> list[str]:
        """Lay out what an audit found."""
        head = ["", "| audit | | |", "| --- | --- | --- |"]
        body = [f"| {item.name} | {item.found} | {in_cell(item.says)} |" for item in self.verdicts]
        return [*head, *body] if body else []

    def figure_tables(self) -> list[str]:
        """Lay out the figures of the model itself."""
        if self.figures is None:
            return []
        marked = f" ({self.figures.n_marked:,} documents that people marked)"
        groups = (
            ("calibration", self.figures.calibration),
            ("when less is read", self.figures.faithfulness),
            (f"agreement with people{marked}", self.figures.agreement),
        )
        lines: list[str] = []
        for title, measures in groups:
            if measures:
                lines += ["", f"| {title} | |", "| --- | --- |"]
                lines += [f"| {measure.name} | {measure.figure} |" for measure in measures]
        if self.figures.lengths:
            lines += ["", "| words kept, same predictor | macro-F1 |", "| --- | --- |"]
            lines += [f"| {score.ratio:.0%} | {score.macro_f1} |" for score in self.figures.lengths]
        return lines

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said below the table."""
        left = (f"Truncating left {self.unread:.1%} of the words unread.",) if self.unread else ()
        return (*left, *self.notes)


def in_cell(text: str) -> str:
    """Make a sentence fit into a cell of a table."""
    return text.translate(CONTROL_PICTURES).replace("\n", " ").replace("|", "\\|")


def cells(row: Row) -> tuple[str, str, str, str]:
    """Write the cells of a row: each figure with its interval, where it has one."""
    return (
        row.name,
        str(Estimate.of(row.macro_f1, row.macro_f1_between)),
        str(Estimate.of(row.accuracy, row.accuracy_between)),
        _percent(row.kept, row.kept_between),
    )


def _class_cells(score: ClassScore) -> tuple[str, str, str, str, str]:
    """Write the cells of a class."""
    return (
        score.label,
        str(Estimate.of(score.precision, score.precision_between)),
        str(Estimate.of(score.recall, score.recall_between)),
        str(Estimate.of(score.f1, score.f1_between)),
        f"{score.support:,}",
    )


def _percent(value: float, bounds: Bounds | None) -> str:
    """Write a share in percent and its interval."""
    return f"{value:.1%}" if bounds is None else f"{value:.1%} ({bounds[0]:.1%}–{bounds[1]:.1%})"
