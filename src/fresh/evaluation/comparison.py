"""Models measured on the same documents and tested against each other: single ones, or groups of runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from fresh.config import flatten, suggest
from fresh.document import Example, Explanation
from fresh.evaluation.comparison_report import ComparisonReport
from fresh.evaluation.evaluation import GoldLabels, check_labels, explain_all
from fresh.evaluation.html_report import evenly_spaced
from fresh.evaluation.warnings import training_warnings
from fresh.metrics.bootstrap import Estimate, Floats, Ints, accuracy_interval, macro_f1_interval, ratio_interval
from fresh.metrics.classification import accuracy, macro_f1
from fresh.metrics.plausibility import measure_agreement
from fresh.metrics.significance import N_PERMUTATIONS, compare_accuracy, compare_macro_f1, holm, welch
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import Pair, ScoreRow, ShownDocument
from fresh.training.config import FREE

MAX_DOCUMENTS_SHOWN = 1_000
NamedModels = Iterable[tuple[str, Rationalizer]]


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
        f1 = macro_f1_interval(right, answers[name], len(gold.labels), texts=gold.texts)
        share_right = accuracy_interval(right, answers[name], texts=gold.texts)
        kept = ratio_interval(one.n_kept, one.n_words, texts=gold.texts)
        people = ratio_interval(one.token_f1, one.n_parts, texts=marked) if len(one.marked) else None
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
    return _report(examples, gold, rows, tests, views, warnings)


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
    for name, runs in groups.items():
        own = [measured[f"{name} ({run})"] for run in runs]
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
    return _report(examples, gold, rows, tests, views, warnings)


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
            one, other = settings[first].get(setting), own.get(setting)
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
    # Only counts are kept of each model: a mapping that loads its models has one of them in memory at a time.
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
    n_kept = np.array([int(explanation.mask.kept.sum()) for explanation in explained])
    n_words = np.array([len(explanation.mask) for explanation in explained])
    marked = np.flatnonzero([example.human_spans is not None for example in examples])
    if not len(marked):
        return _Measured(answers, n_kept, n_words, marked, np.empty(0), marked)
    counts = measure_agreement(examples, explained).counts
    parts = counts.example[counts.has_words]
    sums = np.bincount(parts, weights=counts.token_f1[counts.has_words], minlength=len(examples))
    n_parts = np.bincount(parts, minlength=len(examples))
    return _Measured(answers, n_kept, n_words, marked, sums[marked].astype(np.float64), n_parts[marked])


def _report(
    examples: Sequence[Example],
    gold: GoldLabels,
    rows: Sequence[ScoreRow],
    pairs: Sequence[Pair],
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
    return ComparisonReport(len(examples), n_marked, labels, tuple(rows), corrected, views, n_texts, warnings)
