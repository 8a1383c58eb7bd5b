"""Models side by side on the same documents: scores and tests, as JSON, Markdown and a page."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fresh.metrics.bootstrap import Estimate, describe_shared_texts, short
from fresh.reporting.html import AgreementRow, Pair, ScoreRow, ShownDocument, View, render
from fresh.reporting.tables import markdown_table
from fresh.text import plural

TEST_HEADER = ("first − second", "measure", "difference", "p", "p (Holm)")
# With more models than this, the title of a page counts them.
MAX_NAMES = 4


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """All models and all tests, over the same documents."""

    n_documents: int
    n_marked: int
    """Documents with a human rationale."""
    labels: tuple[str, ...]
    rows: tuple[ScoreRow, ...]
    pairs: tuple[Pair, ...]
    documents: tuple[ShownDocument, ...]
    """What the first model read, in all documents or some of them."""
    n_texts: int | None = None
    """Different texts, where several documents share one: these are resampled and swapped whole."""
    warnings: tuple[str, ...] = ()

    @property
    def of_runs(self) -> bool:
        """Whether each row stands for several runs."""
        return any(row.runs for row in self.rows)

    @property
    def n_tests(self) -> int:
        """How many tests Holm's correction counts."""
        return sum(pair.p is not None for pair in self.pairs)

    @property
    def correction(self) -> str:
        """The correction of the tests."""
        return f"Holm's correction for {'the one test' if self.n_tests == 1 else f'all {self.n_tests:,} tests'}"

    @property
    def test(self) -> str:
        """The name of the test."""
        if self.of_runs:
            return "Welch's t-test over seeds"
        return f"paired permutation test, on the same {'documents' if self.n_texts is None else 'texts, swapped whole'}"

    @property
    def ranges(self) -> str:
        """What the ranges around scores are."""
        if self.of_runs:
            return "Scores are means over runs with several seeds. Ranges go from the lowest run to the highest."
        if self.n_texts is None:
            return "Ranges are 95 % bootstrap intervals over the documents."
        shared = describe_shared_texts(self.n_documents, self.n_texts)
        return f"Ranges are 95 % bootstrap intervals over whole texts: {shared}."

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the scores and the tests."""
        notes = [*self.warnings, self.ranges]
        if self.n_marked:
            share = f"{self.n_marked:,} of {plural(self.n_documents, 'document')} with a human rationale"
            notes.append(f"Token F1 is the agreement with people, on the {share}.")
        if self.n_tests:
            notes.append(f"p: {self.test}. p (Holm): the same, with {self.correction} in this table.")
        if self.of_runs:
            notes.append(
                "There are no paired tests: they compare two models, not two groups of runs. "
                "Welch's t-test treats the documents as fixed."
            )
        untested = [pair for pair in self.pairs if pair.p is None]
        notes += [f"{pair.first} − {pair.second}, {pair.measure}: no test, since {pair.says}" for pair in untested]
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; the documents are for the page only."""
        return {
            "n_documents": self.n_documents,
            "n_texts": self.n_texts,
            "n_marked": self.n_marked,
            "labels": list(self.labels),
            "rows": [{name: value for name, value in asdict(row).items() if name != "own"} for row in self.rows],
            "pairs": [asdict(pair) for pair in self.pairs],
            "ranges": self.ranges,
            "test": self.test,
            "correction": "Holm",
            "n_tests": self.n_tests,
            "cautions": list(self.warnings),
        }

    def to_json(self) -> str:
        """Return indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Return two tables and the notes."""
        scores = markdown_table(self.header, map(_one_line, self.score_cells()))
        tests = markdown_table(TEST_HEADER, map(_one_line, self.test_cells()))
        return "\n".join((*scores, "", *tests, *(f"\n{note}" for note in self.notes))) + "\n"

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the table of scores."""
        return ("model", "macro-F1", "accuracy", "words kept", *(("token F1",) if self.n_marked else ()))

    def score_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each model; a range stands on a line of its own."""
        for row in self.rows:
            own = (_cell(row.macro_f1, short), _cell(row.accuracy, short), _cell(row.kept, "{:.1%}".format))
            yield (row.name, *own, *((_cell(row.token_f1, short),) if self.n_marked and row.token_f1 else ()))

    def test_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each test; a range stands on a line of its own."""
        for pair in self.pairs:
            p_values = (_p_value(pair.p), _p_value(pair.adjusted))
            yield (f"{pair.first}\n− {pair.second}", pair.measure, _cell(pair.difference, _signed), *p_values)

    def to_html(self, data: str = "") -> str:
        """Return a page that needs no other file."""
        return render(self.to_view(data))

    def to_view(self, data: str = "") -> View:
        """Return what the page shows; its documents are shown as the first model read them.

        :param data: The source of the documents.
        """
        names, first = [row.name for row in self.rows], self.rows[0]
        title = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= MAX_NAMES else f"{len(names)} models"
        reader = f"{first.name} ({first.runs[0]})" if first.runs else first.name
        read = f"The documents are shown as {reader} read them."
        whiskers = "Whiskers go from the lowest run to the highest." if self.of_runs else "Whiskers are 95 % intervals."
        return View(
            f"{title} side by side",
            self.rows,
            self.documents,
            data,
            self.n_documents,
            settings=tuple((row.name, ", ".join(row.runs)) for row in self.rows if row.runs),
            agreement=tuple(AgreementRow(row.name, {"token F1": row.token_f1}) for row in self.rows if row.token_f1),
            pairs=self.pairs,
            notes=(read, *self.notes),
            whiskers=f"{whiskers} {read}",
            tests=f"{self.test[0].upper()}{self.test[1:]}; corrected: {self.correction}",
        )


def _cell(estimate: Estimate, form: Callable[[float], str]) -> str:
    """Write a score and, on a line below it, its range."""
    if estimate.low is None or estimate.high is None:
        return form(estimate.value)
    between = " to " if form is _signed else "–"
    return f"{form(estimate.value)}\n{form(estimate.low)}{between}{form(estimate.high)}"


def _signed(value: float) -> str:
    text = short(value)
    return text if text.startswith("-") else f"+{text}"


def _p_value(p: float | None) -> str:
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _one_line(cells: tuple[str, ...]) -> list[str]:
    """Put the range of each score in parentheses beside it."""
    return [cells[0], *(re.sub(r"\n(.+)", r" (\1)", cell) for cell in cells[1:])]
