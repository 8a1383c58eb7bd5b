"""Models measured on the same documents and tested against each other: single ones, or groups of runs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from fresh.config import flatten, suggest
from fresh.document import Example, Explanation
from fresh.evaluation.evaluation import GoldLabels, check_labels, explain_all
from fresh.evaluation.html_report import evenly_spaced
from fresh.evaluation.warnings import training_warnings
from fresh.metrics import bootstrap
from fresh.metrics.bootstrap import Estimate, Flags, Floats, Interval, Ints, Texts, short
from fresh.metrics.classification import accuracy, macro_f1
from fresh.metrics.overlap import measure_overlap
from fresh.metrics.plausibility import measure_agreement
from fresh.metrics.significance import N_PERMUTATIONS, compare_accuracy, compare_macro_f1, holm, welch
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import AgreementRow, Pair, ScoreRow, ShownDocument, View, render
from fresh.reporting.tables import markdown_table
from fresh.text import plural
from fresh.training.config import FREE, LATER

MAX_DOCUMENTS_SHOWN = 1_000
TEST_HEADER = ("first − second", "measure", "difference", "p", "p (Holm)")
OVERLAP_HEADER = ("rationales", "overlap", "by chance")
# With more models than this, the title of a page counts them.
MAX_NAMES = 4
NamedModels = Iterable[tuple[str, Rationalizer]]


@dataclass(frozen=True, slots=True)
class RationaleOverlap:
    """Mean intersection over union of the rationales of two models, or of the seeds of one."""

    first: str
    second: str
    shared: Interval
    by_chance: float
    """The expected value for random words, as many as each rationale has."""


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """All models and all tests, over the same documents."""

    n_documents: int
    n_marked: int
    """Documents with a human rationale."""
    labels: tuple[str, ...]
    rows: tuple[ScoreRow, ...]
    pairs: tuple[Pair, ...]
    overlaps: tuple[RationaleOverlap, ...]
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
        shared = bootstrap.describe_shared_texts(self.n_documents, self.n_texts)
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
        notes.append(
            "Overlap: words in both rationales, of the words in either, with a 95 % bootstrap interval. By chance: the "
            "same for random words, as many."
        )
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
            "overlaps": [asdict(overlap) for overlap in self.overlaps],
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
        """Return the tables and the notes."""
        tables = ("\n".join(markdown_table(header, cells)) for _, header, cells in self.tables())
        return "\n\n".join((*tables, *self.notes)) + "\n"

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], Iterator[tuple[str, ...]]]]:
        """Yield the title, the columns and the cells of each table."""
        yield plural(self.n_documents, "document"), self.header, self.score_cells()
        yield "Differences", TEST_HEADER, self.test_cells()
        yield "Overlap of rationales", OVERLAP_HEADER, self.overlap_cells()

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the table of scores."""
        return ("model", "macro-F1", "accuracy", "words kept", *(("token F1",) if self.n_marked else ()))

    def score_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each model."""
        for row in self.rows:
            people = (str(row.token_f1),) if self.n_marked and row.token_f1 else ()
            yield (row.name, str(row.macro_f1), str(row.accuracy), row.kept.show("{:.1%}".format), *people)

    def test_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each test."""
        for pair in self.pairs:
            p_values = (_p_value(pair.p), _p_value(pair.adjusted))
            yield (f"{pair.first}\n− {pair.second}", pair.measure, pair.difference.show(_signed), *p_values)

    def overlap_cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each pair of models, or of the seeds of each."""
        for one in self.overlaps:
            other = "(between seeds)" if one.first == one.second else f"and {one.second}"
            yield f"{one.first}\n{other}", str(one.shared), short(one.by_chance)

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
        overlaps = [f"{name}: overlap {shared}, by chance {chance}." for name, shared, chance in self.overlap_cells()]
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
            notes=(read, *self.notes, *overlaps),
            whiskers=f"{whiskers} {read}",
            tests=f"{self.test[0].upper()}{self.test[1:]}; corrected: {self.correction}",
        )


def _signed(value: float) -> str:
    text = short(value)
    return text if text.startswith("-") else f"+{text}"


def _p_value(p: float | None) -> str:
    return "–" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def compare(
    models: Mapping[str, Rationalizer],
    examples: Sequence[Example],
    progress: Progress = SILENT,
    against: str | None = None,
) -> ComparisonReport:
    """Measure models on the same documents, and test each pair of them.

    :param models: At least two, by name. They are looked up twice, one at a time: to check whether they can be
        compared, and to explain the documents. So a mapping may load them, and only one is in memory.
    :param against: Name of the model that all others are tested against, instead of each pair.
    """
    name_pairs = _pair_names(list(models), against)
    gold, _, warnings = _check_models(models.items(), examples)
    measured, views = _measure_all(models.items(), examples, progress)
    right, answers = gold.numbered(gold.gold), {name: gold.numbered(one.answers) for name, one in measured.items()}
    rows: list[ScoreRow] = []
    for name, one in measured.items():
        marked = None if gold.texts is None else gold.texts[one.marked]
        f1 = bootstrap.macro_f1_interval(right, answers[name], len(gold.labels), texts=gold.texts)
        share_right = bootstrap.accuracy_interval(right, answers[name], texts=gold.texts)
        kept = bootstrap.ratio_interval(one.n_kept, one.n_words, texts=gold.texts)
        people = bootstrap.ratio_interval(one.token_f1, one.n_parts, texts=marked) if len(one.marked) else None
        rows.append(ScoreRow(name, f1, share_right, kept, people))
    tests: list[Pair] = []
    with progress.task("testing", len(name_pairs)) as advance:
        for first, second in name_pairs:
            columns = right, answers[first], answers[second]
            for test in (
                compare_macro_f1(*columns, len(gold.labels), texts=gold.texts),
                compare_accuracy(*columns, texts=gold.texts),
            ):
                swaps = "all swaps were counted" if test.exact else f"{N_PERMUTATIONS:,} random swaps"
                units = "whole texts" if test.by_text else "documents"
                says = f"a swap matters on {test.n_discordant:,} {units}; {swaps}"
                tests.append(Pair(first, second, test.measure, test.difference, test.p, says))
            advance(1, "")
    overlaps = _compare_rationales({name: [one] for name, one in measured.items()}, name_pairs, gold.texts)
    return _report(examples, gold, rows, tests, overlaps, views, warnings)


def compare_groups(
    groups: Mapping[str, Mapping[str, Rationalizer]],
    examples: Sequence[Example],
    progress: Progress = SILENT,
    against: str | None = None,
) -> ComparisonReport:
    """Measure groups of runs that differ in their seeds, and test the means of each pair of groups.

    :param groups: At least two, by name; each at least two runs, by name.
    :param against: Name of the group that all others are tested against, instead of each pair.
    """
    name_pairs = _pair_names(list(groups), against)
    for name, runs in groups.items():
        if len(runs) < 2:
            raise ValueError(f"Means over seeds need at least two runs. Add one to {name}: it has {len(runs)}.")

    def all_runs() -> NamedModels:
        return ((f"{name} ({run})", model) for name, runs in groups.items() for run, model in runs.items())

    gold, settings, warnings = _check_models(all_runs(), examples)
    for name, runs in groups.items():
        _check_runs(name, {run: settings[f"{name} ({run})"] for run in runs})
    measured, views = _measure_all(all_runs(), examples, progress)
    rows: list[ScoreRow] = []
    scores: dict[str, dict[str, list[float]]] = {}  # one figure a run
    by_group: dict[str, list[_Measured]] = {}
    for name, runs in groups.items():
        own = by_group[name] = [measured[f"{name} ({run})"] for run in runs]
        scores[name] = {
            "macro-F1": [macro_f1(gold.gold, run.answers, gold.labels) for run in own],
            "accuracy": [accuracy(gold.gold, run.answers) for run in own],
        }
        f1, share_right = map(_range, scores[name].values())
        kept = _range([float(run.n_kept.sum() / run.n_words.sum()) for run in own])
        agreement = [float(run.token_f1.sum() / max(1, run.n_parts.sum())) for run in own if len(run.marked)]
        people = _range(agreement) if agreement else None
        rows.append(ScoreRow(name, f1, share_right, kept, people, tuple(runs)))
    tests: list[Pair] = []
    for first, second in name_pairs:
        for measure in ("macro-F1", "accuracy"):
            test = welch(scores[first][measure], scores[second][measure])
            says = test.note if test.t is None else f"Welch's t({test.degrees:.1f}) = {test.t:.2f}"
            tests.append(Pair(first, second, measure, Estimate(test.difference), test.p, says))
    overlaps = _compare_rationales(by_group, name_pairs, gold.texts)
    return _report(examples, gold, rows, tests, overlaps, views, warnings)


def _compare_rationales(
    groups: Mapping[str, Sequence["_Measured"]], name_pairs: Iterable[tuple[str, str]], texts: Texts
) -> tuple[RationaleOverlap, ...]:
    """Compare the rationales of the runs of each group, if there are several, and of each pair of groups."""
    pairs = {(name, name): list(combinations(runs, 2)) for name, runs in groups.items() if len(runs) > 1}
    pairs |= {(first, second): list(product(groups[first], groups[second])) for first, second in name_pairs}
    overlaps: list[RationaleOverlap] = []
    for names, runs in pairs.items():
        found = [measure_overlap(one.kept, other.kept, one.n_words) for one, other in runs]
        shared, by_chance = np.mean(found, axis=0)
        overlaps.append(RationaleOverlap(*names, bootstrap.mean_interval(shared, texts=texts), by_chance.mean().item()))
    return tuple(overlaps)


def _range(figures: Sequence[float]) -> Estimate:
    """Return the mean over runs, between the lowest and the highest."""
    return Estimate(sum(figures) / len(figures), min(figures), max(figures))


def _pair_names(names: Sequence[str], against: str | None) -> list[tuple[str, str]]:
    if len(names) < 2:
        raise ValueError(f"A comparison needs at least two models, got {len(names)}: {', '.join(names) or 'none'}.")
    if against is None:
        return list(combinations(names, 2))
    if against not in names:
        raise ValueError(suggest(against, "one of the models", names))
    return [(name, against) for name in names if name != against]


def _check_models(
    models: NamedModels, examples: Sequence[Example]
) -> tuple[GoldLabels, dict[str, dict[str, Any]], tuple[str, ...]]:
    """Refuse models that cannot be compared with each other, and documents that they cannot read.

    :return: The gold labels, the settings of each model, and warnings.
    """
    if not examples:
        raise ValueError("examples must have at least one document to compare on.")
    labels: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = {}
    warnings: list[str] = []
    first, needs_query = "", False
    for name, model in models:
        warnings += [f"{name}: {warning}" for warning in training_warnings(model, examples)]
        settings[name] = dict(flatten(model.settings))
        if not first:
            first, needs_query, labels = name, model.needs_query, model.labels
            for example in examples:
                model.check_query(example.document)
        if set(model.labels) != set(labels):
            both = f"{first} has {', '.join(labels)} and {name} has {', '.join(model.labels)}"
            raise ValueError(f"Only models with the same labels can be compared, but {both}. Leave one out.")
        if model.needs_query != needs_query:
            with_query, without = (first, name) if needs_query else (name, first)
            both = f"{with_query} was trained with queries, {without} without"
            raise ValueError(f"Models trained with and without queries cannot be compared: {both}. Leave one out.")
    check_labels(labels, examples)
    return GoldLabels.of(examples, labels), settings, tuple(warnings)


def _check_runs(name: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse runs of one group that differ in more than the seed, or not even in the seed."""
    seeds: dict[tuple[Any, ...], str] = {}
    [first, *_] = settings
    for run, own in settings.items():
        for setting in sorted({*own, *settings[first]}, key=lambda setting: (setting != "method", setting)):
            one, other = (each.get(setting, LATER.get(setting)) for each in (settings[first], own))
            if one != other and setting.rpartition(".")[2] not in ("seed", *FREE):
                both = f"{setting} is {one!r} in {first} and {other!r} in {run}"
                raise ValueError(f"Runs of {name} may differ only in the seed, but {both}. Give them two names.")
        # A method may have several: all of them together name a run.
        seed = tuple(value for setting, value in sorted(own.items()) if setting.rpartition(".")[2] == "seed")
        if seed and seed in seeds:
            same = f"{seeds[seed]} and {run} both have {seed[0]}"
            raise ValueError(f"Runs of one name must differ in the seed, but {same}. Leave one of them out of {name}.")
        seeds[seed] = run


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What one model did, counted for each document."""

    answers: tuple[str, ...]
    kept: Flags  # whether each word is kept, one document after the other
    n_kept: Ints
    n_words: Ints
    marked: Ints  # the numbers of the documents that people marked
    token_f1: Floats  # agreement with people, summed over the texts that each of them was joined from: (marked,)
    n_parts: Ints  # the number of these texts, without those in which neither side marked a word: (marked,)


def _measure_all(
    models: NamedModels, examples: Sequence[Example], progress: Progress
) -> tuple[dict[str, _Measured], tuple[ShownDocument, ...]]:
    """Have models explain the documents one after the other; show what the first one read."""
    documents = [example.document for example in examples]
    measured: dict[str, _Measured] = {}
    views: tuple[ShownDocument, ...] = ()
    # Only counts and masks are kept of each model: a mapping that loads its models has one of them in memory at a time.
    for name, model in models:
        try:
            explained = explain_all(model, documents, progress, f"explaining {name}")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        shown = evenly_spaced(len(examples), MAX_DOCUMENTS_SHOWN)
        views = views or tuple((examples[place], explained[place]) for place in shown)
        measured[name] = _measure(examples, explained)
    return measured, views


def _measure(examples: Sequence[Example], explained: Sequence[Explanation]) -> _Measured:
    answers = tuple(explanation.prediction.label for explanation in explained)
    kept = np.concatenate([explanation.mask.kept for explanation in explained])
    n_kept = np.array([int(explanation.mask.kept.sum()) for explanation in explained])
    n_words = np.array([len(explanation.mask) for explanation in explained])
    marked = np.flatnonzero([example.human_spans is not None for example in examples])
    if not len(marked):
        return _Measured(answers, kept, n_kept, n_words, marked, np.empty(0), marked)
    counts = measure_agreement(examples, explained).counts
    parts = counts.example[counts.has_words]
    sums = np.bincount(parts, weights=counts.token_f1[counts.has_words], minlength=len(examples))
    n_parts = np.bincount(parts, minlength=len(examples))
    return _Measured(answers, kept, n_kept, n_words, marked, sums[marked].astype(np.float64), n_parts[marked])


def _report(
    examples: Sequence[Example],
    gold: GoldLabels,
    rows: Sequence[ScoreRow],
    pairs: Sequence[Pair],
    overlaps: tuple[RationaleOverlap, ...],
    views: tuple[ShownDocument, ...],
    warnings: tuple[str, ...],
) -> ComparisonReport:
    """Correct the p of all tests together, as Holm does, and put everything into a report."""
    # One family of tests, since a reader who looks for any difference in the table makes all of them.
    p_values = {str(number): pair.p for number, pair in enumerate(pairs) if pair.p is not None}
    adjusted = {one.name: one.adjusted for one in holm(p_values)}
    corrected = tuple(replace(pair, adjusted=adjusted.get(str(number))) for number, pair in enumerate(pairs))
    n_marked = sum(example.human_spans is not None for example in examples)
    # Ranges over runs resample nothing, so it does not matter which documents share a text.
    n_texts = None if rows[0].runs else gold.n_texts
    labels = tuple(gold.labels)
    return ComparisonReport(len(examples), n_marked, labels, tuple(rows), corrected, overlaps, views, n_texts, warnings)
