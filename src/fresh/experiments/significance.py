"""Comparisons of two values of a setting: Welch's t-test over seeds, all else being equal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from fresh.errors import ConfigError
from fresh.experiments.results import (
    MAIN_METRIC,
    MISSING,
    RunResult,
    check_known,
    check_metrics,
    check_names,
    distinguishing_settings,
    format_value,
    group_by,
    status,
    unique_runs,
)
from fresh.experiments.tables import MIXED, NAME_ONE, Cell, group_cells, make_cell
from fresh.metrics.bootstrap import short
from fresh.metrics.significance import Welch, holm, welch
from fresh.reporting.tables import Table
from fresh.training.config import FREE

ALPHA = 0.05


class Contrast(NamedTuple):
    """Two values of a setting to compare."""

    name: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.name}: {self.first} − {self.second}"


@dataclass(frozen=True, slots=True)
class ContrastTest:
    """The test of runs with one value against runs with the other, all else being equal."""

    contrast: Contrast
    common: dict[str, str]  # what is equal: the corpus, and all settings
    first: Cell
    second: Cell
    test: Welch

    @property
    def mixed(self) -> tuple[str, ...]:
        """How runs of one side differ besides the seed."""
        return (*self.first.mixed, *self.second.mixed)


@dataclass(frozen=True, slots=True)
class WelchTable:
    """All comparisons, corrected for their number."""

    tests: tuple[ContrastTest, ...]
    results: tuple[RunResult, ...]

    @property
    def names(self) -> list[str]:
        """Settings, besides the corpus, in which comparisons differ."""
        names = dict.fromkeys(name for one in self.tests for name in one.common if name != "corpus")
        return [name for name in names if len({one.common[name] for one in self.tests if name in one.common}) > 1]

    @property
    def compared_setting(self) -> str | None:
        """The compared setting, if all comparisons have the same."""
        names = {one.contrast.name for one in self.tests}
        return names.pop() if len(names) == 1 else None

    def adjusted(self) -> dict[int, float]:
        """Correct all p values, by the number of their comparison; one that could not be tested has none."""
        ps = {str(number): one.test.p for number, one in enumerate(self.tests) if one.test.p is not None}
        return {int(result.name): result.adjusted for result in holm(ps)}

    def to_table(self, marked: bool = True) -> Table:
        """Format the table; differences that are significant after the correction are bold, unless runs are mixed."""
        labels = ("corpus", *self.names, self.compared_setting or "first − second")
        header = (*labels, "first", "second", "difference", "t", "df", "p", "p (Holm)")
        adjusted = self.adjusted()
        rows: list[tuple[str, ...]] = []
        for number, one in enumerate(self.tests):
            test = one.test
            shown = (MISSING, MISSING) if test.t is None else (f"{test.t:.2f}", f"{test.degrees:.1f}")
            sides = (str(one.first), str(one.second), signed(test.difference))
            rows.append((*self._label(one), *sides, *shown, _format_p(test.p), _format_p(adjusted.get(number))))
        bold = {(n, len(header) - 1) for n, p in adjusted.items() if p < ALPHA and not self.tests[n].mixed}
        notes = tuple(self._notes(len(adjusted), bool(bold), marked))
        return Table(header, tuple(rows), tuple(self._records(adjusted)), len(labels), frozenset(bold), notes)

    def _label(self, one: ContrastTest) -> tuple[str, ...]:
        values = f"{one.contrast.first} − {one.contrast.second}" if self.compared_setting else str(one.contrast)
        return one.common["corpus"], *(one.common.get(name, MISSING) for name in self.names), values

    def _records(self, adjusted: dict[int, float]) -> Iterator[dict[str, object]]:
        for number, one in enumerate(self.tests):
            test = {"t": one.test.t, "degrees of freedom": one.test.degrees, "p": one.test.p}
            yield {
                "corpus": one.common["corpus"],
                **{name: one.common.get(name, "") for name in self.names},
                "setting": one.contrast.name,
                "first": one.contrast.first,
                "second": one.contrast.second,
                "figure": one.first.metric,
                "mean of first": one.first.mean,
                "mean of second": one.second.mean,
                "n of first": len(one.first.values),
                "n of second": len(one.second.values),
                "difference": one.test.difference,
                **{name: "" if value is None else value for name, value in test.items()},
                "p (Holm)": adjusted.get(number, ""),
            }

    def _notes(self, n_tests: int, has_bold: bool, marked: bool) -> Iterator[str]:
        mixed = list(dict.fromkeys(name for one in self.tests for name in one.mixed))
        over = "runs" if mixed else "seeds"
        yield f"{self.tests[0].first.metric}: mean (min–max) over {over}; the difference is between the means."
        if mixed:
            sides = f"{MIXED}: runs that" if marked else "Runs of one side"
            yield f"{sides} also differ in {', '.join(mixed)}. {NAME_ONE}"
        if n_tests:
            tests = "the one test" if n_tests == 1 else f"all {n_tests} tests"
            holm_note = f"p (Holm): with Holm's correction for {tests}{'; bold: below .05' * (has_bold and marked)}."
            yield f"p: Welch's t-test, two-sided; df: its degrees of freedom. {holm_note}"
        for one in self.tests:
            if one.test.p is None:
                yield f"{', '.join(self._label(one))}: no test, since {one.test.note}"
        yield from status(self.results)


def signed(value: float) -> str:
    """Format a difference with its sign, even if all of its digits are 0."""
    sign = "-" if value < 0 else "+" if value > 0 else ""
    return f"{sign}{short(abs(value))}"


def _format_p(p: float | None) -> str:
    return MISSING if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}".replace("0.", ".", 1)


def parse_contrast(results: Sequence[RunResult], text: str) -> Contrast:
    """Parse SETTING=FIRST:SECOND."""
    name, sign, values = text.partition("=")
    if not sign or ":" not in values:
        raise ConfigError(f"{text!r} is not a comparison. Write SETTING=FIRST:SECOND, as in scorer=random:attention.")
    check_names(results, [name])
    known = {format_value(result.get(name)) for result in results}
    # Values may contain colons, as 0.05:0.5: of all ways to divide the text, take the first with two known values.
    pairs = [(values[:place], values[place + 1 :]) for place, sign in enumerate(values) if sign == ":"]
    first, second = next((pair for pair in pairs if known.issuperset(pair)), pairs[0])
    check_known((first, second), f"a value of {name} in these runs", sorted(known))
    return Contrast(name, first, second)


def welch_table(results: Sequence[RunResult], contrasts: Sequence[Contrast], metric: str = MAIN_METRIC) -> WelchTable:
    """Compare runs that differ only in the compared setting and the seed; rows on each corpus, whatever their settings.

    If runs of one row differ in more than the seed, they are compared only with matching runs.
    """
    check_metrics(results, [metric])
    tests: list[ContrastTest] = []
    for contrast in contrasts:
        name, *values = contrast
        runs = [run for run in results if format_value(run.get(name)) in values]
        split = distinguishing_settings(group_cells(runs, ["row"], ["corpus"])) if name == "row" else ()
        for settings, same in group_by(runs, partial(_common_settings, name=name, split=split)).items():
            sides = [[run for run in same if format_value(run.get(name)) == value] for value in values]
            first, second = (make_cell(metric, unique_runs(side)) for side in sides)
            if first.values and second.values:
                test = welch(first.values, second.values)
                tests.append(ContrastTest(contrast, dict(settings), first, second, test))
    if not tests:
        asked, hint = ", ".join(map(str, contrasts)), "Compare rows, as in row=FIRST:SECOND, or finish more runs."
        raise ConfigError(
            f"There is nothing to compare for {asked}: no two runs differ only in it and the seed. {hint}"
        )
    return WelchTable(tuple(tests), tuple(results))


def _common_settings(result: RunResult, name: str, split: Sequence[str]) -> tuple[tuple[str, str], ...]:
    # What must be equal for a comparison; `split` are settings in which runs of one row differ.
    own = [other for other in sorted(result.settings) if other not in (name, "seed", *FREE)]
    names = split if name == "row" else own
    return ("corpus", result.corpus), *(
        (other, format_value(result.get(other))) for other in names if other != "corpus"
    )
