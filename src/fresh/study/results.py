"""The paper's tables, with intervals, agreement and tests, and a figure of them."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fresh._io import atomic_write
from fresh._optional import optional_import
from fresh.config import flatten
from fresh.errors import StudyError
from fresh.metrics.bootstrap import Interval, mean_interval, short
from fresh.reporting.figure_style import COLORS, MARKERS, NO_METADATA, STYLE, check_figure_paths
from fresh.reporting.tables import Table
from fresh.study import statistics
from fresh.study.answers import MEASURES, Response, group_by_item, majority_labels, measure_items, median_seconds
from fresh.text import plural

MARKDOWN_SPECIAL = re.compile(r"[\\`*_\[\]<>&#|~]")
HEADER = ("condition", "items", "accuracy", "confidence (1-4)", "SD", "readability (1-5)", "SD")
AGREEMENT_HEADER = ("condition", "raw", "by chance", "kappa", "alpha", "alpha confidence", "alpha readability")
DIFFERENCE_HEADER = ("pair", "measure", "documents", "difference", "p texts", "p people", "p (Holm)")
FIGURE_LIMITS = {"accuracy": (0, 1), "confidence": (1, 4), "readability": (1, 5)}


@dataclass(frozen=True, slots=True)
class Scale:
    """A rating over the items of a condition: mean and sample standard deviation of item means."""

    mean: Interval
    sd: float | None  # None for a single item

    def cells(self) -> tuple[str, str]:
        """Format both for a table."""
        mean = self.mean
        return f"{mean.value:.2f} ({mean.low:.2f}–{mean.high:.2f})", "–" if self.sd is None else f"{self.sd:.2f}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far annotators agree in a condition; None where it is undefined."""

    raw: float | None  # mean share of the most frequent label among an item's answers
    chance: float  # raw agreement of random labels with the label frequencies of the condition
    even_chance: float  # raw agreement of random labels with equal frequencies
    kappa: float | None
    alpha: float | None
    alpha_confidence: float | None
    alpha_readability: float | None


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """The figures of one condition."""

    condition: str
    n_items: int
    n_answers: int
    n_ties: int
    accuracy: Interval  # of majority votes
    confidence: Scale
    readability: Scale
    seconds: float | None  # median time of an answer; None if no time was measured
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class Results:
    """All figures of a study."""

    title: str
    n_annotators: int
    n_planned: int
    per_item: int
    rows: tuple[ConditionResult, ...]
    differences: tuple[statistics.Difference, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Explain how to read the tables, and what is missing."""
        n_answers = sum(row.n_answers for row in self.rows)
        missing = f" Still missing: {self.n_planned - n_answers:,}." if n_answers < self.n_planned else ""
        people, ties = plural(self.n_annotators, "annotator"), sum(row.n_ties for row in self.rows)
        even = self.rows[0].agreement.even_chance
        return (
            f"{n_answers:,} of {plural(self.n_planned, 'answer')} by {people}.{missing}",
            "Accuracy: majority votes. A tied vote counts as the average over the tied labels. "
            f"Tied votes: {ties}. Confidence and readability: mean and sample standard deviation of item means. "
            "Ranges contain 95 % of bootstrap resamples of texts.",
            "Raw agreement: mean share of the most frequent label. By chance: the same for people who choose labels at "
            f"random, with the label frequencies of this study; with equal frequencies it is {short(even)}. "
            "Alpha: Krippendorff's, nominal for labels and ordinal for ratings. Kappa: Fleiss'.",
            "Tests swap two conditions within texts, and within people. The larger p counts, with Holm's correction "
            "for all tests in the table.",
        )

    def table(self) -> Table:
        """Lay out the paper's table."""
        rows = [
            (row.condition, str(row.n_items), str(row.accuracy), *row.confidence.cells(), *row.readability.cells())
            for row in self.rows
        ]
        return Table(HEADER, tuple(rows), tuple(self.records()), notes=self.notes[:2])

    def agreement_table(self) -> Table:
        """Lay out the agreement between annotators."""
        columns = ("raw", "chance", "kappa", "alpha", "alpha_confidence", "alpha_readability")
        rows = [(row.condition, *(_figure(getattr(row.agreement, name)) for name in columns)) for row in self.rows]
        return Table(AGREEMENT_HEADER, tuple(rows), tuple(self.records()), notes=self.notes[2:3])

    def differences_table(self) -> Table:
        """Lay out the tests."""
        rows = [
            (
                f"{one.first} − {one.second}",
                one.measure,
                str(one.n_documents),
                str(one.difference),
                *(format_p(p) for p in (one.p_documents, one.p_annotators, one.adjusted)),
            )
            for one in self.differences
        ]
        return Table(DIFFERENCE_HEADER, tuple(rows), tuple(self.records()), n_labels=2, notes=self.notes[3:])

    def tables(self) -> dict[str, Table]:
        """Return all tables by their titles."""
        tables = {"Tables": self.table(), "Agreement": self.agreement_table()}
        return tables | ({"Differences between conditions": self.differences_table()} if self.differences else {})

    def records(self) -> list[dict[str, object]]:
        """Return the figures of each condition in full."""
        return [{name.replace(".", "_"): value for name, value in flatten(asdict(row))} for row in self.rows]

    def to_markdown(self) -> str:
        """Write all tables as Markdown."""
        title = MARKDOWN_SPECIAL.sub(r"\\\g<0>", self.title)
        return f"# {title}\n\n" + "\n".join(table.to_markdown() for table in self.tables().values())

    def to_json(self) -> str:
        """Write all figures as JSON."""
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
        raise StudyError("There are no answers yet, so there are no results.")
    present = [name for name in conditions if any(response.condition == name for response in responses)]
    rows: list[ConditionResult] = []
    for name in present:
        own = [response for response in responses if response.condition == name]
        groups = list(group_by_item(own).values())
        # Documents that share a text are resampled together: their answers are not independent.
        texts = np.array([group[0].text for group in groups], dtype=np.int64)
        values = {measure: list(measure_items(own, measure).values()) for measure in MEASURES}
        means = {measure: mean_interval(column, seed=seed, texts=texts) for measure, column in values.items()}
        sds = {m: float(np.std(values[m], ddof=1)) if len(groups) > 1 else None for m in MEASURES}
        confidence, readability = (Scale(means[measure], sds[measure]) for measure in MEASURES[1:])
        n_ties = sum(len(majority_labels([response.label for response in group])) > 1 for group in groups)
        seconds = median_seconds(response.milliseconds for response in own)
        agreement = measure_agreement(groups, labels, per_item)
        sizes = (len(groups), len(own), n_ties)
        rows.append(ConditionResult(name, *sizes, means["accuracy"], confidence, readability, seconds, agreement))
    n_annotators = len({response.annotator for response in responses})
    differences = tuple(statistics.compare_conditions(responses, present, seed))
    return Results(title, n_annotators, n_planned, per_item, tuple(rows), differences)


def measure_agreement(groups: Sequence[Sequence[Response]], labels: Sequence[str], per_item: int) -> Agreement:
    """Compute the agreement of annotators on some items."""
    votes = [[labels.index(response.label) for response in group] for group in groups]
    counts = Counter(vote for item in votes for vote in item)
    frequencies = [counts[number] / counts.total() for number in range(len(labels))]
    # Chance depends on the number of answers: those of these items, or as planned while no item has two.
    sizes = Counter(len(item) for item in votes if len(item) > 1) or Counter({per_item: 1})

    def by_chance(probabilities: Sequence[float]) -> float:
        return sum(count * statistics.chance_agreement(n, probabilities) for n, count in sizes.items()) / sizes.total()

    return Agreement(
        statistics.raw_agreement(votes),
        by_chance(frequencies),
        by_chance([1 / len(labels)] * len(labels)),
        statistics.fleiss_kappa(votes, per_item),
        statistics.krippendorff_alpha(votes),
        *(
            statistics.krippendorff_alpha([[getattr(r, name) for r in group] for group in groups], "ordinal")
            for name in MEASURES[1:]
        ),
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else short(value)


def format_p(p: float | None) -> str:
    """Write a p value, never as zero; a dash if there is none."""
    return "<.001" if p is not None and p < 0.001 else _figure(p)


def draw_results(results: Results, paths: Sequence[Path]) -> None:
    """Draw the means with their intervals: a panel for each measure, a line for each condition.

    :param paths: Files to write; their suffix is the format.
    """
    check_figure_paths(paths)
    matplotlib = optional_import("matplotlib", "plot", "A figure")
    figures = optional_import("matplotlib.figure", "plot", "A figure")
    rows = results.rows
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the user's matplotlibrc must not change the bytes
        matplotlib.rcParams.update(STYLE)
        figure = figures.Figure(figsize=(8.4, 0.9 + 0.35 * len(rows)), layout="constrained")
        for axes, (name, limits) in zip(figure.subplots(1, 3, sharey=True), FIGURE_LIMITS.items(), strict=True):
            for number, row in enumerate(rows):
                mean = row.accuracy if name == "accuracy" else getattr(row, name).mean
                color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
                axes.plot([mean.low, mean.high], [number, number], color=color)
                axes.plot([mean.value], [number], color=color, marker=marker, clip_on=False)
            axes.set_title(name)
            axes.set_xlim(*limits)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), [row.condition for row in rows])
        for path in paths:
            with atomic_write(path) as partial:
                figure.savefig(partial, format=path.suffix[1:], metadata=NO_METADATA[path.suffix])
