"""The paper's tables, with intervals, agreement and tests."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fresh.errors import StudyError
from fresh.metrics.bootstrap import Interval, mean_interval, short
from fresh.reporting.tables import Table
from fresh.study.agreement import alpha, fleiss, raw_agreement, raw_agreement_by_chance
from fresh.study.answer import typical_seconds
from fresh.study.differences import Difference, compare_conditions
from fresh.study.ratings import MEASURES, Response, by_item, item_values, majority
from fresh.study.wording import plural

TIES = "A tied vote is worth what drawing lots among the tied labels gets on average."
MARKUP = re.compile(r"[\\`*_\[\]<>&#|~]")
"""What Markdown takes for something else than text."""
HEADS = ("condition", "items", "accuracy", "confidence (1-4)", "SD", "readability (1-5)", "SD")
AGREEMENT_HEADS = ("condition", "raw", "by chance", "kappa", "alpha", "alpha confidence", "alpha readability")
PAIR_HEADS = ("pair", "measure", "documents", "difference", "p texts", "p people", "p (Holm)")


@dataclass(frozen=True, slots=True)
class _Scale:
    """A rating over the items of a condition: mean and sample standard deviation of item means."""

    mean: Interval
    sd: float | None
    """Nothing for a single item."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far people agree in a condition; nothing where it cannot be said."""

    raw: float | None
    """Mean share of the most frequent label among an item's answers."""
    chance: float
    """Raw agreement of people who choose labels at random, as often as all people here chose them."""
    even_chance: float
    """Raw agreement of people who choose all labels alike at random."""
    kappa: float | None
    alpha: float | None
    alpha_confidence: float | None
    alpha_readability: float | None


@dataclass(frozen=True, slots=True)
class _Row:
    """One condition."""

    condition: str
    n_items: int
    n_answers: int
    n_ties: int
    accuracy: Interval
    """Of majority votes."""
    confidence: _Scale
    readability: _Scale
    seconds: float | None
    """Median time an answer took; nothing where none was measured."""
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class Results:
    """All that follows from the answers."""

    title: str
    n_annotators: int
    n_planned: int
    per_item: int
    rows: tuple[_Row, ...]
    differences: tuple[Difference, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Say how the tables are to be read, and what is missing."""
        n_answers = sum(row.n_answers for row in self.rows)
        missing = f" Still missing: {self.n_planned - n_answers:,}." if n_answers < self.n_planned else ""
        people = plural(self.n_annotators, "annotator")
        ties = sum(row.n_ties for row in self.rows)
        even = self.rows[0].agreement.even_chance
        return (
            f"{n_answers:,} of {plural(self.n_planned, 'answer')} by {people}.{missing}",
            f"Accuracy is that of majority votes. {TIES} Tied votes: {ties}. Confidence and readability: mean, and "
            "sample standard deviation, of item means. Ranges hold 95 % of bootstrap resamples of texts.",
            "Raw agreement is the mean share of the most frequent label; by chance: of people who throw dice with the "
            f"labels as frequent as here. If all labels were alike, chance alone would give {short(even)}. "
            "Alpha: Krippendorff's, nominal for labels, ordinal for ratings; kappa: Fleiss'.",
            "Tests swap two conditions within texts, and within people; the larger p counts, corrected for the number "
            "of all tests in the table (Holm).",
        )

    def table(self) -> Table:
        """Lay out the paper's table."""
        rows = [
            (
                row.condition,
                str(row.n_items),
                str(row.accuracy),
                *(part for scale in (row.confidence, row.readability) for part in (_spelt(scale.mean), _sd(scale.sd))),
            )
            for row in self.rows
        ]
        return Table(HEADS, tuple(rows), tuple(self.records()), notes=self.remarks[:2])

    def agreement_table(self) -> Table:
        """Lay out how far people agree."""
        parts = [(row.condition, row.agreement) for row in self.rows]
        rows = [
            (name, *map(_known, (a.raw, a.chance, a.kappa, a.alpha, a.alpha_confidence, a.alpha_readability)))
            for name, a in parts
        ]
        return Table(AGREEMENT_HEADS, tuple(rows), tuple(self.records()), notes=self.remarks[2:3])

    def pairs_table(self) -> Table:
        """Lay out the tests."""
        rows = [
            (
                f"{one.first} − {one.second}",
                one.measure,
                str(one.n_documents),
                str(one.difference),
                *(probability(p) for p in (one.p_documents, one.p_annotators, one.adjusted)),
            )
            for one in self.differences
        ]
        return Table(PAIR_HEADS, tuple(rows), tuple(self.records()), n_labels=2, notes=self.remarks[3:])

    def records(self) -> list[dict[str, object]]:
        """Write the rows in full, for machines."""
        return [_flat(asdict(row)) for row in self.rows]

    def to_markdown(self) -> str:
        """Write all tables."""
        sheets = [self.table(), self.agreement_table(), *([self.pairs_table()] if self.differences else [])]
        title = MARKUP.sub(r"\\\g<0>", self.title)
        return f"# {title}\n\n" + "\n".join(sheet.to_markdown() for sheet in sheets)

    def to_json(self) -> str:
        """Write everything for machines."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def make_results(
    responses: Sequence[Response],
    conditions: Sequence[str],
    labels: Sequence[str],
    per_item: int,
    n_planned: int,
    title: str = "Study",
    seed: int = 0,
) -> Results:
    """Compute all tables from the answers that count."""
    if not responses:
        raise StudyError("Nobody has answered yet, so that there are no results.")
    there = [name for name in conditions if any(response.condition == name for response in responses)]
    rows = tuple(_row_of(name, [r for r in responses if r.condition == name], labels, per_item, seed) for name in there)
    people = {response.annotator for response in responses}
    differences = tuple(compare_conditions(responses, there, seed))
    return Results(title, len(people), n_planned, per_item, rows, differences)


def _row_of(name: str, responses: Sequence[Response], labels: Sequence[str], per_item: int, seed: int) -> _Row:
    """Compute one condition."""
    groups = by_item(responses)
    texts = np.array([group[0].text for group in groups.values()], dtype=np.int64)
    columns = {measure: [item_values(responses, measure)[key] for key in groups] for measure in MEASURES}
    means = {measure: mean_interval(column, seed=seed, texts=texts) for measure, column in columns.items()}
    confidence, readability = (
        _Scale(means[m], float(np.std(columns[m], ddof=1)) if len(groups) > 1 else None) for m in MEASURES[1:]
    )
    n_ties = sum(len(majority([response.label for response in group])) > 1 for group in groups.values())
    seconds = typical_seconds(response.milliseconds for response in responses)
    agreement = agreement_of(list(groups.values()), labels, per_item)
    return _Row(
        name, len(groups), len(responses), n_ties, means["accuracy"], confidence, readability, seconds, agreement
    )


def agreement_of(groups: Sequence[Sequence[Response]], labels: Sequence[str], per_item: int) -> Agreement:
    """Compute how far people agree on some items."""
    votes = [[labels.index(response.label) for response in group] for group in groups]
    counts = Counter(vote for item in votes for vote in item)
    shares = [counts[number] / counts.total() for number in range(len(labels))]
    return Agreement(
        raw_agreement(votes),
        _chance_level(votes, per_item, shares),
        _chance_level(votes, per_item, [1 / len(labels)] * len(labels)),
        fleiss(votes, per_item),
        alpha(votes),
        *(alpha([[getattr(r, name) for r in group] for group in groups], "ordinal") for name in MEASURES[1:]),
    )


def _chance_level(votes: Sequence[Sequence[int]], per_item: int, chances: Sequence[float]) -> float:
    """Compute what chance gives on items with as many answers as these; as many as planned, where nobody compares."""
    sizes = Counter(len(item) for item in votes if len(item) > 1) or Counter({per_item: 1})
    return sum(count * raw_agreement_by_chance(n, chances) for n, count in sizes.items()) / sizes.total()


def _spelt(figure: Interval) -> str:
    """Write a rating with its range."""
    return f"{figure.value:.2f} ({figure.low:.2f}–{figure.high:.2f})"


def _sd(value: float | None) -> str:
    """Write a standard deviation, if there is one."""
    return "–" if value is None else f"{value:.2f}"


def _known(value: float | None) -> str:
    """Write a figure, if it is known."""
    return "–" if value is None else short(value)


def probability(p: float | None) -> str:
    """Write how likely something is by chance, if it is known; never as nothing."""
    return "<.001" if p is not None and p < 0.001 else _known(p)


def _flat(record: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Write nested figures as one line of names."""
    found: dict[str, object] = {}
    for name, value in record.items():
        found |= _flat(value, f"{prefix}{name}_") if isinstance(value, dict) else {prefix + name: value}
    return found
