"""Models side by side on the same documents: figures and tests, as JSON, Markdown and a page."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fresh.metrics.estimate import Estimate, short
from fresh.metrics.resampling import share_texts
from fresh.reporting.html import AgreementRow, DocumentView, HeadlineRow, Pair, View, render

HEADS = ("macro-F1", "accuracy", "words kept")
PAIR_HEADS = ("first − second", "measure", "difference", "p", "p (Holm)")
WHISKERS = "Whiskers are 95 % intervals."
RUN_WHISKERS = "Whiskers go from the lowest run to the highest."
FEW = 4
"""Up to so many models, a page bears all their names."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """How well one model did, or the runs of one."""

    name: str
    macro_f1: Estimate
    accuracy: Estimate
    kept: Estimate
    """Share of all words that was read."""
    token_f1: Estimate | None = None
    """Agreement with people, where it is known what they marked."""
    runs: tuple[str, ...] = ()
    """The runs that the figures are means over; none if it is a single model."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All models and all tests, over the same documents."""

    n_documents: int
    n_marked: int
    """Documents of which it is known what people marked."""
    labels: tuple[str, ...]
    rows: tuple[ModelRow, ...]
    pairs: tuple[Pair, ...]
    documents: tuple[DocumentView, ...]
    """What the first model read, in all documents or some of them."""
    n_texts: int | None = None
    """Different texts, where several documents have one: these are drawn and swapped whole."""
    cautions: tuple[str, ...] = ()
    """What is wrong with the documents for some of the models."""

    @property
    def of_runs(self) -> bool:
        """Whether each row stands for several runs."""
        return any(row.runs for row in self.rows)

    @property
    def n_tests(self) -> int:
        """How many tests Holm's correction counts."""
        return sum(pair.p is not None for pair in self.pairs)

    @property
    def counted(self) -> str:
        """Say the same in words."""
        return "the one test" if self.n_tests == 1 else f"all {self.n_tests:,} tests"

    @property
    def test(self) -> str:
        """Name the test."""
        if self.of_runs:
            return "Welch's t-test over seeds"
        return f"paired permutation test, on the same {'documents' if self.n_texts is None else 'texts, swapped whole'}"

    @property
    def ranges(self) -> str:
        """Say what the ranges around figures are."""
        if self.of_runs:
            return "Figures are means over runs of several seeds, ranges go from the lowest run to the highest."
        if self.n_texts is None:
            return "Ranges are 95 % bootstrap intervals over the documents."
        shared = share_texts(self.n_documents, self.n_texts)
        return f"Ranges are 95 % bootstrap intervals over whole texts: {shared}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said below the tables."""
        return tuple(self.said())

    def said(self) -> Iterator[str]:
        """Say how the figures and the tests are to be read."""
        yield from self.cautions
        yield self.ranges
        if self.n_marked:
            marked = f"{self.n_marked:,} of {self.n_documents:,} documents"
            yield f"Token F1 is the agreement with people, on the {marked} of which it is known what they marked."
        if self.n_tests:
            yield f"p: {self.test}. p (Holm): the same with Holm's correction for {self.counted} in this table."
        if self.of_runs:
            yield (
                "Paired tests are left out: they compare two models, not two groups of runs. "
                "Welch's t-test takes the documents as fixed."
            )
        for pair in self.pairs:
            if pair.p is None:
                yield f"{pair.first} − {pair.second}, {pair.measure}: no test, since {pair.says}"

    def to_dict(self) -> dict[str, Any]:
        """Turn it into plain values, for JSON; documents are for the page only."""
        return {
            "n_documents": self.n_documents,
            "n_texts": self.n_texts,
            "n_marked": self.n_marked,
            "labels": list(self.labels),
            "rows": [asdict(row) for row in self.rows],
            "pairs": [asdict(pair) for pair in self.pairs],
            "ranges": self.ranges,
            "test": self.test,
            "correction": "Holm",
            "n_tests": self.n_tests,
            "cautions": list(self.cautions),
        }

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Lay it out as two tables."""
        lines = [
            *_laid_out(self.heads, map(_one_line, self.cells())),
            "",
            *_laid_out(PAIR_HEADS, map(_one_line, self.tested())),
        ]
        return "\n".join((*lines, *(f"\n{remark}" for remark in self.remarks))) + "\n"

    @property
    def heads(self) -> tuple[str, ...]:
        """Name the columns of the figures."""
        return ("model", *HEADS, *(("token F1",) if self.n_marked else ()))

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Write the figures of each model; a range stands on a line of its own."""
        for row in self.rows:
            own = (_cell(row.macro_f1, short), _cell(row.accuracy, short), _cell(row.kept, "{:.1%}".format))
            yield (row.name, *own, *((_cell(row.token_f1, short),) if self.n_marked and row.token_f1 else ()))

    def tested(self) -> Iterator[tuple[str, ...]]:
        """Write how each test went; a range stands on a line of its own."""
        for pair in self.pairs:
            tests = (_p_value(pair.p), _p_value(pair.adjusted))
            yield (f"{pair.first}\n− {pair.second}", pair.measure, _cell(pair.difference, _signed), *tests)

    def to_html(self, data: str = "") -> str:
        """Write it as a page that needs no other file.

        :param data: What the documents were taken from.
        """
        return render(self.to_view(data))

    def to_view(self, data: str = "") -> View:
        """Say what a page shows of it; its documents are those of the first model."""
        names = [row.name for row in self.rows]
        shown = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= FEW else f"{len(names)} models"
        read = f"The documents are shown as {_shown_run(self.rows[0])} read them."
        return View(
            f"{shown} side by side",
            tuple(HeadlineRow(row.name, row.macro_f1, row.accuracy, row.kept) for row in self.rows),
            self.documents,
            data,
            self.n_documents,
            settings=tuple((row.name, ", ".join(row.runs)) for row in self.rows if row.runs),
            agreement=tuple(AgreementRow(row.name, token_f1=row.token_f1) for row in self.rows if row.token_f1),
            pairs=self.pairs,
            notes=(read, *self.remarks),
            whiskers=f"{RUN_WHISKERS if self.of_runs else WHISKERS} {read}",
            tests=f"{self.test[0].upper()}{self.test[1:]}; corrected: Holm's correction for {self.counted}",
        )


def _shown_run(row: ModelRow) -> str:
    """Name the model whose documents are shown."""
    return f"{row.name} ({row.runs[0]})" if row.runs else row.name


def _cell(estimate: Estimate, form: Callable[[float], str]) -> str:
    """Write a figure and, on a line below it, its range."""
    if estimate.low is None or estimate.high is None:
        return form(estimate.value)
    between = " to " if form is _signed else "–"
    return f"{form(estimate.value)}\n{form(estimate.low)}{between}{form(estimate.high)}"


def _signed(value: float) -> str:
    """Write a difference with its sign."""
    text = short(value)
    return text if text.startswith("-") else f"+{text}"


def _p_value(p: float | None) -> str:
    """Write how often chance alone would do as much."""
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _one_line(cells: Sequence[str]) -> tuple[str, ...]:
    """Put each cell on one line, for Markdown: the range of a figure in brackets."""
    name, *figures = (cell.replace("|", "\\|") for cell in cells)
    joined = (
        f"{value} ({between})" if between else value for value, _, between in (f.partition("\n") for f in figures)
    )
    return (name.replace("\n", " "), *joined)


def _laid_out(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Lay out a table in Markdown."""
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"
