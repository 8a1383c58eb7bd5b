"""A table that can be written as Markdown, LaTeX or comma-separated values."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fresh.highlight import CONTROL_PICTURES

LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "−": "$-$",
        "×": r"$\times$",
        "Δ": r"$\Delta$",
        "†": r"\dag{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\n": " ",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)
MARKDOWN = str.maketrans({"|": "\\|", "\n": " ", "*": "\\*"})
PLAIN = {**CONTROL_PICTURES, ord("\n"): " ", ord("|"): "\\|"}
# A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
TAG = re.compile(r"<(?=[a-zA-Z/!?])")


@dataclass(frozen=True, slots=True)
class Table:
    """A header, rows of cells, and notes below them."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[Mapping[str, object], ...]
    """The same figures unrounded, for machines: one a line."""
    n_labels: int = 1
    """Columns that name a row, from the left; the others hold figures."""
    best: frozenset[tuple[int, int]] = frozenset()
    """The row and the column of each cell in bold, both from 0."""
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """Return Markdown whose columns are aligned, so that the source is readable too."""
        cells = self._escape(lambda cell: TAG.sub("&lt;", cell.translate(MARKDOWN)), "**{}**")
        sides = "<" * self.n_labels + ">" * (len(self.header) - self.n_labels)
        columns = [(side, max(3, *map(len, column))) for side, *column in zip(sides, *cells, strict=True)]
        rule = ["-" * width if side == "<" else "-" * (width - 1) + ":" for side, width in columns]
        rows = [
            [f"{cell:{side}{width}}" for cell, (side, width) in zip(row, columns, strict=True)]
            for row in (cells[0], rule, *cells[1:])
        ]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join((*lines, *(f"\n{note}" for note in self.notes))) + "\n"

    def to_latex(self) -> str:
        """Return a booktabs table, with the notes as comments."""
        columns = "l" * self.n_labels + "r" * (len(self.header) - self.n_labels)
        cells = self._escape(lambda cell: cell.translate(LATEX), r"\textbf{{{}}}")
        rows = [" & ".join(row) + r" \\" for row in cells]
        notes = [f"% {line}" for note in self.notes for line in note.splitlines()]
        lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule"]
        return "\n".join((*lines, *rows[1:], r"\bottomrule", r"\end{tabular}", *notes)) + "\n"

    def to_csv(self) -> str:
        """Return the unrounded figures, one line a record."""
        text = io.StringIO()
        names = dict.fromkeys(name for record in self.records for name in record)
        # Line feeds only, on every system: the same table gives the same bytes.
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return text.getvalue()

    def write(self, form: str) -> str:
        """Return the table as `markdown`, `csv` or `latex`."""
        return {"markdown": self.to_markdown, "csv": self.to_csv, "latex": self.to_latex}[form]()

    def _escape(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        rows = [[escape(cell) for cell in row] for row in (self.header, *self.rows)]
        for row, column in self.best:
            rows[row + 1][column] = bold.format(rows[row + 1][column])
        return rows


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lay out the lines of a plain Markdown table."""
    lines = (header, ["---"] * len(header), *rows)
    return ["|" + "".join(f" {cell.translate(PLAIN)} |" if cell else " |" for cell in cells) for cells in lines]


def escape_formula(cell: str) -> str:
    """Put an apostrophe before what a spreadsheet would compute."""
    return f"'{cell}" if cell.startswith(FORMULA_SIGNS) else cell
