"""Whether a setting matters: Welch's t-test over seeds between two of its values, all else being equal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.mixture import with_callback
from fresh.experiments.results import MAIN, NOTHING, Result, check_figures, check_names, each_once, grouped, written
from fresh.experiments.standing import standing
from fresh.experiments.tables import MIXED, NAME_ONE, Cell, cell_of, cells_of
from fresh.metrics.bootstrap import short
from fresh.metrics.significance import Welch, holm, welch
from fresh.reporting.tables import Table
from fresh.training.config import FREE

ALPHA = 0.05


class Question(NamedTuple):
    """Two values of a setting that are held against each other."""

    name: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.name}: {self.first} − {self.second}"


@dataclass(frozen=True, slots=True)
class _Compared:
    """The runs with one value against those with the other, all else being equal."""

    question: Question
    about: dict[str, str]
    """What is equal: the corpus, and all settings."""
    first: Cell
    second: Cell
    test: Welch

    @property
    def sides(self) -> tuple[Cell, Cell]:
        """Both."""
        return self.first, self.second


@dataclass(frozen=True, slots=True)
class _WelchTable:
    """All comparisons, corrected for their number."""

    compared: tuple[_Compared, ...]
    results: tuple[Result, ...]

    @property
    def names(self) -> list[str]:
        """What tells the comparisons apart, beside the corpus."""
        names = dict.fromkeys(name for one in self.compared for name in one.about if name != "corpus")
        return [name for name in names if len({one.about[name] for one in self.compared if name in one.about}) > 1]

    @property
    def asked(self) -> list[str]:
        """The setting in question, if it is one in all comparisons."""
        names = list(dict.fromkeys(one.question.name for one in self.compared))
        return names if len(names) == 1 else []

    def adjusted(self) -> dict[int, float]:
        """Correct the p of all tests that could be made, by the number of their comparison."""
        ps = {str(number): one.test.p for number, one in enumerate(self.compared) if one.test.p is not None}
        return {int(found.name): found.adjusted for found in holm(ps)}

    def sheet(self, marked: bool = True) -> Table:
        """Lay it out; comparisons that hold after the correction are in bold, unless runs are mixed.

        :param marked: Whether remarks explain marks and bold cells, which comma-separated values do not have.
        """
        labels = ("corpus", *self.names, *(self.asked or ["first − second"]))
        heads = (*labels, "first", "second", "difference", "t", "df", "p", "p (Holm)")
        adjusted = self.adjusted()
        rows = [(*self.label(one), *_figures_of(one, adjusted.get(n))) for n, one in enumerate(self.compared)]
        pure = [not any(side.mixed for side in one.sides) for one in self.compared]
        best = {(n, len(heads) - 1) for n, p in adjusted.items() if p < ALPHA and pure[n]}
        records, remarks = tuple(self.records(adjusted)), tuple(self.remarks(len(adjusted), bool(best), marked))
        return Table(heads, tuple(rows), records, len(labels), frozenset(best), remarks)

    def label(self, one: _Compared) -> tuple[str, ...]:
        """Say what is compared."""
        values = f"{one.question.first} − {one.question.second}"
        same = (one.about["corpus"], *(one.about.get(name, NOTHING) for name in self.names))
        return (*same, values if self.asked else f"{one.question.name}: {values}")

    def records(self, adjusted: dict[int, float]) -> Iterator[dict[str, object]]:
        """Write each comparison in full."""
        for number, one in enumerate(self.compared):
            yield {
                "corpus": one.about["corpus"],
                **{name: one.about.get(name, "") for name in self.names},
                "setting": one.question.name,
                "first": one.question.first,
                "second": one.question.second,
                "figure": one.first.figure,
                "mean of first": one.first.mean,
                "mean of second": one.second.mean,
                "n of first": len(one.first.values),
                "n of second": len(one.second.values),
                "difference": one.test.difference,
                "t": _blank(one.test.t),
                "degrees of freedom": _blank(one.test.degrees),
                "p": _blank(one.test.p),
                "p (Holm)": _blank(adjusted.get(number)),
            }

    def remarks(self, n_tests: int, has_bold: bool, marked: bool) -> Iterator[str]:
        """Say how the tests are to be read."""
        mixed = list(dict.fromkeys(name for one in self.compared for side in one.sides for name in side.mixed))
        over = "runs" if mixed else "seeds"
        yield f"{self.compared[0].first.figure}: mean (min–max) over {over}; the difference is between the means."
        if mixed:
            sides = f"{MIXED}: runs that" if marked else "Runs of one side"
            yield f"{sides} differ also in {', '.join(mixed)}. {NAME_ONE}"
        tests = "the one test" if n_tests == 1 else f"all {n_tests} tests"
        if n_tests:
            yield (
                "p: Welch's t-test, two-sided; df: its degrees of freedom. "
                f"p (Holm): with Holm's correction for {tests}{'; bold: below .05' if has_bold and marked else ''}."
            )
        for one in self.compared:
            if one.test.p is None:
                yield f"{', '.join(self.label(one))}: no test, since {one.test.note}"
        yield from standing(self.results)


def _blank(value: float | None) -> float | str:
    """Leave out what is not known."""
    return "" if value is None else value


def _figures_of(one: _Compared, adjusted: float | None) -> tuple[str, ...]:
    """Write the figures of a comparison."""
    test = one.test
    shown = (NOTHING, NOTHING) if test.t is None else (f"{test.t:.2f}", f"{test.degrees:.1f}")
    return (str(one.first), str(one.second), signed(test.difference), *shown, _p_value(test.p), _p_value(adjusted))


def signed(value: float) -> str:
    """Write a difference with its sign, also where it is too small for its digits to be seen."""
    sign = "-" if value < 0 else "+" if value > 0 else ""
    return f"{sign}{short(abs(value))}"


def _p_value(p: float | None) -> str:
    """Write how often chance alone would do as much."""
    return NOTHING if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}".replace("0.", ".", 1)


def read_question(results: Sequence[Result], text: str) -> Question:
    """Read what is asked, written as SETTING=FIRST:SECOND; values may have colons of their own."""
    name, sign, values = text.partition("=")
    if not sign or ":" not in values:
        raise ConfigError(f"{text!r} is no comparison. Write SETTING=FIRST:SECOND, as in discretizer=top_k:contiguous.")
    check_names(results, [name])
    known = {written(result.about(name)) for result in results}
    places = [place for place, sign in enumerate(values) if sign == ":"]
    pairs = [(values[:place], values[place + 1 :]) for place in places]
    first, second = next((pair for pair in pairs if known.issuperset(pair)), pairs[0])
    for value in (first, second):
        if value not in known:
            raise ConfigError(suggest(value, f"a value of {name} in these runs", sorted(known)))
    return Question(name, first, second)


def welch_table(results: Sequence[Result], questions: Sequence[Question], figure: str = MAIN) -> _WelchTable:
    """Make all comparisons that the runs allow.

    Runs are compared where all settings but the one in question, and the seed, are equal; rows, which have names of
    their own, where the corpus is, and what else tells runs of a row apart, as those of several experiments may have.
    """
    check_figures(results, [figure])
    found = [one for question in questions for one in _compared(results, question, figure)]
    if not found:
        asked = ", ".join(map(str, questions))
        raise ConfigError(
            f"There is nothing to compare for {asked}: no two runs that are done differ in that and the seed only. "
            "Compare rows, as in row=FIRST:SECOND, or run more."
        )
    return _WelchTable(tuple(found), tuple(results))


def _compared(results: Sequence[Result], question: Question, figure: str) -> Iterator[_Compared]:
    """Find what differs in the setting in question only, and test it."""
    asked = _each_of(results, question)
    split = with_callback(cells_of(asked, ["row"], ["corpus"])) if question.name == "row" else ()
    for same in grouped(asked, lambda run: tuple(_equal(run, question.name, split).items())).values():
        sides = [
            cell_of(figure, each_once(run for run in same if written(run.about(question.name)) == value))
            for value in (question.first, question.second)
        ]
        if all(side.values for side in sides):
            test = welch(sides[0].values, sides[1].values)
            yield _Compared(question, _equal(same[0], question.name, split), sides[0], sides[1], test)


def _each_of(results: Sequence[Result], question: Question) -> list[Result]:
    """Take the runs that a question is about."""
    return [run for run in results if written(run.about(question.name)) in (question.first, question.second)]


def _equal(result: Result, name: str, split: Sequence[str]) -> dict[str, str]:
    """List what must be equal for a comparison.

    :param split: What tells runs of one row apart, which rows are not compared across.
    """
    corpus = {"corpus": result.corpus}
    if name == "row":
        return corpus | {other: written(result.about(other)) for other in split}
    others = {other: written(value) for other, value in sorted(result.settings.items())}
    return corpus | {other: value for other, value in others.items() if other not in (name, "seed", *FREE)}
