"""A table that is ready to be written: as Markdown, LaTeX or comma-separated values."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula."""
TAG = re.compile(r"<(?=[a-zA-Z/!?])")

Place = tuple[int, int]
"""A row and a column, both from 0."""


@dataclass(frozen=True, slots=True)
class Table:
    """Heads, rows of cells, and what is to be said below them."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[Mapping[str, object], ...]
    """The same figures in full, for machines: one a line."""
    n_labels: int = 1
    """Columns from the left that name a row; the others hold figures."""
    best: frozenset[Place] = frozenset()
    """Cells that are set in bold."""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"The row {row[0]!r} has {len(row)} cells, but there are {len(self.heads)} heads.")

    def to_markdown(self) -> str:
        """Write it with columns of one width, so that it can be read as it is."""
        cells = [list(map(_plain, self.heads)), *self.marked(_plain, "**{}**".format)]
        widths = [max(3, *(len(row[place]) for row in cells)) for place in range(len(self.heads))]
        rule = ["-" * width if place < self.n_labels else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
        lines = [self.padded(row, widths) for row in (cells[0], rule, *cells[1:])]
        return "\n".join((*lines, *(f"\n{remark}" for remark in self.remarks))) + "\n"

    def padded(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        """Write a line of Markdown: names to the left, figures to the right."""
        sides = (str.ljust if place < self.n_labels else str.rjust for place in range(len(cells)))
        whole = (side(cell, width) for side, cell, width in zip(sides, cells, widths, strict=True))
        return f"| {' | '.join(whole)} |"

    def to_latex(self) -> str:
        """Write it with booktabs; what is to be said below it stands in comments."""
        columns = "l" * self.n_labels + "r" * (len(self.heads) - self.n_labels)
        cells = [list(map(_typeset, self.heads)), *self.marked(_typeset, r"\textbf{{{}}}".format)]
        rows = [" & ".join(row) + r" \\" for row in cells]
        said = [f"% {line}" for remark in self.remarks for line in remark.splitlines()]
        lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule"]
        return "\n".join((*lines, *rows[1:], r"\bottomrule", r"\end{tabular}", *said)) + "\n"

    def to_csv(self) -> str:
        """Write the figures in full, one line a cell of the table."""
        written = io.StringIO()
        names = list(dict.fromkeys(name for record in self.records for name in record))
        table = csv.DictWriter(written, names, lineterminator="\n")
        table.writeheader()
        table.writerows(self.records)
        return written.getvalue()

    def marked(self, escape: Callable[[str], str], bold: Callable[[str], str]) -> Iterator[list[str]]:
        """Escape all cells, and set the best in bold."""
        for number, row in enumerate(self.rows):
            escaped = [escape(cell) for cell in row]
            yield [bold(cell) if (number, place) in self.best else cell for place, cell in enumerate(escaped)]

    def write(self, form: str) -> str:
        """Write it in one of the forms, by its name."""
        return FORMS[form](self)


def _plain(text: str) -> str:
    """Write a text so that Markdown takes it for one."""
    return TAG.sub("&lt;", text.translate(MARKDOWN))


def _typeset(text: str) -> str:
    """Write a text so that LaTeX takes it for one."""
    return text.translate(LATEX)


FORMS: dict[str, Callable[[Table], str]] = {
    "markdown": Table.to_markdown,
    "csv": Table.to_csv,
    "latex": Table.to_latex,
}


def harmless(cell: str) -> str:
    """Keep a spreadsheet from computing what somebody wrote."""
    return f"'{cell}" if cell.startswith(FORMULAS) else cell
