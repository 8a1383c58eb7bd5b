"""Models measured on the same documents and tested against each other: single ones, or groups of runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any

from fresh._optional import optional_import
from fresh.config import flatten, suggest
from fresh.document import Example, Explanation
from fresh.evaluation.compare_measures import (
    Measured,
    corrected,
    figures_of,
    group_row,
    measure,
    model_row,
    paired_tests,
    seed_tests,
    shown,
)
from fresh.evaluation.comparison_report import SideBySide
from fresh.evaluation.evaluate import explain_all
from fresh.evaluation.gold_labels import GoldLabels, check_labels
from fresh.evaluation.warnings import trained_on
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import DocumentView, Pair
from fresh.training.config import FREE


def compare(
    models: Mapping[str, Rationalizer],
    examples: Sequence[Example],
    progress: Progress = SILENT,
    against: str | None = None,
) -> SideBySide:
    """Measure models on the same documents, and test each pair of them.

    :param models: At least two, by name. They are taken from here twice, one at a time: to see whether they can be
        compared, and to answer.
    :param against: Name of the one that all others are tested against, instead of each pair.
    """
    pairs = _pairs_of(list(models), against)
    told: list[str] = []
    labels = _check_models(_cautioned(models.items(), examples, told), examples)
    measured, views = _measure_all(models.items(), examples, progress)
    found = dict(zip(models, measured, strict=True))
    key = GoldLabels.of(examples, labels)
    rows = tuple(model_row(name, key, one) for name, one in found.items())
    tests: list[Pair] = []
    with progress.task("testing", len(pairs)) as advance:
        for first, second in pairs:
            tests += paired_tests((first, second), key, found[first], found[second])
            advance(1, "")
    n_marked = _count_marked(examples)
    return SideBySide(len(examples), n_marked, labels, rows, corrected(tests), views, key.n_texts, tuple(told))


def compare_groups(
    groups: Mapping[str, Mapping[str, Rationalizer]],
    examples: Sequence[Example],
    progress: Progress = SILENT,
    against: str | None = None,
) -> SideBySide:
    """Measure groups of runs that differ in their seeds, and test the means of each pair of groups.

    :param groups: At least two, by name; each at least two runs, by name.
    :param against: Name of the one that all others are tested against, instead of each pair.
    """
    pairs = _pairs_of(list(groups), against)
    _check_groups(groups)
    optional_import("scipy.special", "sklearn", "Welch's t-test")  # before any work is done
    settings: list[dict[str, Any]] = []

    def noted() -> Iterator[tuple[str, Rationalizer]]:
        for name, model in _runs_of(groups):
            settings.append(dict(flatten(model.settings)))
            yield name, model

    told: list[str] = []
    labels = _check_models(_cautioned(noted(), examples, told), examples)
    written = iter(settings)
    for name, runs in groups.items():
        _check_runs(name, dict(zip(runs, islice(written, len(runs)), strict=True)))
    measured, views = _measure_all(_runs_of(groups), examples, progress)
    key, rest = GoldLabels.of(examples, labels), iter(measured)
    figures = {name: figures_of(key, list(islice(rest, len(runs)))) for name, runs in groups.items()}
    rows = tuple(group_row(name, tuple(groups[name]), one) for name, one in figures.items())
    tests = [test for pair in pairs for test in seed_tests(pair, figures)]
    n_marked, said = _count_marked(examples), tuple(told)
    return SideBySide(len(examples), n_marked, labels, rows, corrected(tests), views, cautions=said)


def _cautioned(
    models: Iterable[tuple[str, Rationalizer]], examples: Sequence[Example], told: list[str]
) -> Iterator[tuple[str, Rationalizer]]:
    """Pass models on, and take note of those that know the documents from their training."""
    for name, model in models:
        told += [f"{name}: {caution}" for caution in trained_on(model, examples)]
        yield name, model


def _runs_of(groups: Mapping[str, Mapping[str, Rationalizer]]) -> Iterator[tuple[str, Rationalizer]]:
    """Go through the runs of all groups, each under a name that says both."""
    return ((f"{name} ({run})", model) for name, runs in groups.items() for run, model in runs.items())


def _pairs_of(names: Sequence[str], against: str | None) -> list[tuple[str, str]]:
    """List what is compared with what."""
    if len(names) < 2:
        raise ValueError(f"Give at least two models to compare, got {len(names)}: {', '.join(names) or 'none'}.")
    if against is None:
        return list(combinations(names, 2))
    if against not in names:
        raise ValueError(suggest(against, "one of the models", names))
    return [(name, against) for name in names if name != against]


def _check_models(models: Iterable[tuple[str, Rationalizer]], examples: Sequence[Example]) -> tuple[str, ...]:
    """Refuse models that cannot be held against each other, and documents that they cannot read.

    :return: The labels that all of them know.
    """
    if not examples:
        raise ValueError("There are no documents to compare on. Give some that can be used.")
    first: tuple[str, tuple[str, ...], bool] | None = None
    for name, model in models:
        one, labels, asks = first = first or (name, model.labels, model.needs_query)
        if set(model.labels) != set(labels):
            raise ValueError(
                f"{one} knows the labels {', '.join(labels)}, but {name} knows {', '.join(model.labels)}. "
                "Only models of the same labels can be compared: leave one of them out."
            )
        if model.needs_query != asks:
            with_queries, without = (one, name) if asks else (name, one)
            raise ValueError(
                f"{with_queries} was trained with queries, but {without} without. "
                "Only models of the same kind can be compared: leave one of them out."
            )
        for example in examples if name == one else ():
            model.check_query(example.document)
    assert first is not None
    check_labels(first[1], examples)
    return first[1]


def _check_groups(groups: Mapping[str, Mapping[str, Rationalizer]]) -> None:
    """Refuse a group of less than two runs."""
    for name, runs in groups.items():
        if len(runs) < 2:
            raise ValueError(
                f"{name} stands for {len(runs)} run, but means over seeds need at least two runs of every name. "
                "Give more runs, or compare single models only."
            )


def _check_runs(name: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse runs of a group that differ in more than the seed, or not even in that."""
    seeds: dict[tuple[Any, ...], str] = {}
    [first, *_] = settings
    for run, own in settings.items():
        for setting in sorted({*own, *settings[first]}, key=lambda setting: (setting != "method", setting)):
            ending = setting.rpartition(".")[2]
            one, other = settings[first].get(setting), own.get(setting)
            if one != other and ending not in ("seed", *FREE):
                raise ValueError(
                    f"{first} and {run} differ in more than the seed: {setting} is {one!r} and {other!r}. "
                    f"Runs of one name, here {name}, differ in the seed only: give them two names."
                )
        seed = tuple(value for setting, value in sorted(own.items()) if setting.rpartition(".")[2] == "seed")
        if seed and seed in seeds:
            raise ValueError(
                f"{seeds[seed]} and {run} have the same seed, {seed[0]}, and the same settings. "
                f"One training counts once: leave one of them out of {name}."
            )
        seeds[seed] = run


def _measure_all(
    models: Iterable[tuple[str, Rationalizer]], examples: Sequence[Example], progress: Progress
) -> tuple[list[Measured], tuple[DocumentView, ...]]:
    """Have models answer, one after the other, and count what they did; also say what the first one read."""
    measured: list[Measured] = []
    views: tuple[DocumentView, ...] = ()
    for name, model in models:
        explained = _read(name, model, examples, progress)
        views = views or shown(examples, explained)
        measured.append(measure(examples, explained))
    return measured, views


def _read(name: str, model: Rationalizer, examples: Sequence[Example], progress: Progress) -> list[Explanation]:
    """Have a model answer; what it refuses is told with its name."""
    try:
        return explain_all(model, [example.document for example in examples], progress, f"explaining {name}")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _count_marked(examples: Sequence[Example]) -> int:
    """Count the documents of which it is known what people marked."""
    return sum(example.human_spans is not None for example in examples)
