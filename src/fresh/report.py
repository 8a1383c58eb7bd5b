"""What was measured: rows of a table, as JSON and Markdown."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from fresh.metrics import ClassScore


@dataclass(frozen=True, slots=True)
class Row:
    """How well one way of reading did."""

    name: str
    macro_f1: float
    accuracy: float
    kept: float
    """Share of all words that was read."""
    classes: tuple[ClassScore, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, over the same documents."""

    n_documents: int
    rows: tuple[Row, ...]
    unread: float = 0.0
    """Share of the words of all documents that truncating left unread."""
    notes: tuple[str, ...] = ()
    """What somebody should know who relies on the figures."""

    def to_dict(self) -> dict[str, Any]:
        """Turn it into plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read it back."""
        rows = (
            Row(**{**row, "classes": tuple(ClassScore(**score) for score in row["classes"])}) for row in record["rows"]
        )
        return cls(record["n_documents"], tuple(rows), record["unread"], tuple(record["notes"]))

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Lay it out as a table."""
        head = ["| what is read | macro-F1 | accuracy | words kept |", "| --- | --- | --- | --- |"]
        body = [f"| {row.name} | {row.macro_f1:.3f} | {row.accuracy:.3f} | {row.kept:.1%} |" for row in self.rows]
        return "\n".join((*head, *body, *(f"\n{line}" for line in self.remarks))) + "\n"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said below the table."""
        left = (f"Truncating left {self.unread:.1%} of the words unread.",) if self.unread else ()
        return (*left, *self.notes)
