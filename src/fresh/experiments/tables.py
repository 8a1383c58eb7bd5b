"""The table of an experiment: any setting down, any across, a figure over the seeds in each cell."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.mixture import alike, mixed_in, with_callback
from fresh.experiments.results import (
    MAIN,
    NOTHING,
    TIMED,
    Result,
    check_figures,
    check_names,
    each_once,
    grouped,
    summary,
    values_of,
    written,
)
from fresh.experiments.standing import standing
from fresh.reporting.tables import Position, Table

FIGURE = "figure"
"""Where several figures are shown, they are told apart as settings are."""
LOW_IS_GOOD = (*TIMED, "unread")
NEITHER_IS_GOOD = ("kept",)
READS_ALL = "full_text"
"""The method that chooses no words, and so is not ranked among those that do."""
MIXED = "†"
"""Stands behind a cell whose runs differ in more than the seed."""
NAME_ONE = "Name one experiment: fresh table RUNS EXPERIMENT."

Label = tuple[str, ...]
"""The values of all settings that make up a row, or a column."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of runs that should differ in their seeds only."""

    figure: str
    values: tuple[float, ...]
    n_planned: int
    """Runs that the cell will have when all are done."""
    ranked: bool = True
    """Whether it may be the best of its column."""
    mixed: tuple[str, ...] = ()
    """In what its runs differ beside the seed."""
    runs: tuple[Result, ...] = field(default=(), repr=False)

    @property
    def whole(self) -> bool:
        """Whether all its runs are done."""
        return len(self.values) == self.n_planned

    @property
    def mean(self) -> float:
        """Mean over the runs that are done."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the runs, as of a sample; none of a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def over(self, reference: Sequence[float], mixed: Iterable[str] = ()) -> "Cell":
        """Divide by a mean; by nothing, or by 0, nothing is left.

        :param mixed: In what the runs differ, beside the seed, that the mean is of.
        """
        mean = statistics.fmean(reference) if reference else 0.0
        values = tuple(value / mean for value in self.values) if mean else ()
        return replace(self, values=values, mixed=tuple(dict.fromkeys((*self.mixed, *mixed))))

    def __str__(self) -> str:
        share = "" if self.whole else f"{len(self.values)}/{self.n_planned}"
        return " ".join(part for part in (summary(self.values), share, MIXED if self.mixed else "") if part)


@dataclass(frozen=True, slots=True)
class _Pivot:
    """Cells by row and column."""

    row_names: tuple[str, ...]
    """The settings that tell rows apart."""
    column_names: tuple[str, ...]
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: Mapping[tuple[Label, Label], Cell]
    split: tuple[str, ...] = ()
    """Those of the settings of rows that nobody asked for, but without which runs would be mixed."""
    results: tuple[Result, ...] = field(default=(), repr=False)
    """All runs of the table."""
    relative: str = ""
    """The row by which all figures are divided."""

    @property
    def mixed(self) -> tuple[str, ...]:
        """In what, beside the seed, runs of one cell differ."""
        return tuple(dict.fromkeys(name for cell in self.cells.values() for name in cell.mixed))

    def best(self) -> Iterator[tuple[Label, Label]]:
        """Find the best cells of each column, of those that are whole and not mixed; equal ones as they are written."""
        rivals: dict[tuple[Label, str], list[tuple[Label, Label]]] = {}
        for (row, column), cell in self.cells.items():
            if cell.ranked and cell.whole and cell.values and not cell.mixed:
                rivals.setdefault((column, cell.figure), []).append((row, column))
        for (_, figure), places in rivals.items():
            sign = -1 if figure in LOW_IS_GOOD else 1
            means = {place: sign * round(self.cells[place].mean, 3) for place in places}
            if len(means) > 1:
                yield from (place for place, mean in means.items() if mean == max(means.values()))

    def sheet(self, marked: bool = True) -> Table:
        """Lay it out.

        :param marked: Whether remarks explain the marks of cells, which comma-separated values do not have.
        """
        n_labels, rows, columns = len(self.row_names), self.rows, self.columns
        heads = (*self.row_names, *(", ".join(column) for column in columns))
        laid = [(*row, *(str(self.cells.get((row, column), NOTHING)) for column in columns)) for row in rows]
        best: frozenset[Position] = frozenset(
            (rows.index(row), n_labels + columns.index(column)) for row, column in self.best()
        )
        return Table(heads, tuple(laid), tuple(self.records()), n_labels, best, tuple(self.remarks(bool(best), marked)))

    def records(self) -> Iterator[dict[str, object]]:
        """Write each cell in full."""
        for (row, column), cell in self.cells.items():
            about = dict(zip((*self.row_names, *self.column_names), (*row, *column), strict=True))
            found: dict[str, object] = {"mean": "", "min": "", "max": "", "standard deviation": ""}
            if cell.values:
                found |= {"mean": cell.mean, "min": min(cell.values), "max": max(cell.values)}
                found["standard deviation"] = "" if cell.deviation is None else cell.deviation
            mixed = {"differ in": ", ".join(cell.mixed)} if self.mixed else {}
            yield {**about, FIGURE: cell.figure, **found, "n": len(cell.values), "planned": cell.n_planned, **mixed}

    def remarks(self, has_best: bool, marked: bool) -> Iterator[str]:
        """Say how the table is to be read, and what of it is missing."""
        figures = ", ".join(dict.fromkeys(cell.figure for cell in self.cells.values()))
        same = f" with the same {' and '.join(self.split)}" if self.split else ""
        share = f" as a share of the mean of {self.relative}{same} in the same column" if self.relative else ""
        yield f"{figures}{share}: mean (min–max) over {'runs' if self.mixed else 'seeds'}."
        if marked:
            yield from self.legend(has_best)
        elif self.mixed:
            yield f"differ in: runs of one cell differ also in {', '.join(self.mixed)}. {self.way_out()}"
        yield from standing(self.results)

    def legend(self, has_best: bool) -> Iterator[str]:
        """Say what the marks of cells mean, of which there are any."""
        if has_best:
            all_read = any(result.about("method") == READS_ALL for result in self.results)
            yield f"Bold: the best mean of a column{', full text left out' if all_read else ''}."
        lacking = [cell for cell in self.cells.values() if not cell.whole]
        if lacking:
            n_done, n_planned = max((len(cell.values), cell.n_planned) for cell in lacking)
            runs = "runs" if self.mixed else "seeds"
            yield f"{n_done}/{n_planned}: {n_done} of {n_planned} {runs} are there; such cells are not ranked."
        if self.mixed:
            differ = f"{MIXED}: runs that differ also in {', '.join(self.mixed)}; such cells are not ranked."
            yield f"{differ} {self.way_out()}"

    def way_out(self) -> str:
        """Say how runs that are mixed can be told apart."""
        names = with_callback(cell.runs for cell in self.cells.values())
        if not names:
            return NAME_ONE
        return f"Tell them apart: rows={','.join((*self.row_names, *names))!r}."


def pivot(
    results: Sequence[Result],
    figures: Sequence[str] = (MAIN,),
    rows: Sequence[str] | None = None,
    columns: Sequence[str] = ("corpus",),
) -> _Pivot:
    """Put runs together that have the same place in the table.

    :param figures: Names of figures; if there are several, they are told apart in columns of their own unless ``rows``
        or ``columns`` say "figure".
    :param rows: Settings that tell rows apart; beside settings, "row", "corpus" and "seed" will do. If not given, the
        rows of the grid, and what else tells runs apart that would be in one cell, though they differ in more than the
        seed, as those of several experiments may.
    :param columns: The same for columns.
    """
    check_names(results, (*(rows or ()), *columns), more=(FIGURE,))
    check_figures(results, figures)
    split = with_callback(cells_of(results, ("row",), columns)) if rows is None else ()
    down = ("row", *split) if rows is None else tuple(rows)
    across = (*columns, FIGURE) if len(figures) > 1 and FIGURE not in (*down, *columns) else tuple(columns)
    places: dict[tuple[Label, Label], tuple[str, list[Result]]] = {}
    for figure in figures:
        for result in results:
            place = _label_of(result, down, figure), _label_of(result, across, figure)
            places.setdefault(place, (figure, []))[1].append(result)
    labels = _in_order(row for row, _ in places), _in_order(column for _, column in places)
    cells = {
        (row, column): cell_of(places[row, column][0], each_once(places[row, column][1]))
        for row in labels[0]
        for column in labels[1]
        if (row, column) in places
    }
    return _Pivot(down, across, *labels, cells, split, tuple(results))


def cells_of(results: Sequence[Result], rows: Sequence[str], columns: Sequence[str]) -> list[list[Result]]:
    """Put runs together that would be in one cell."""
    return list(grouped(results, lambda run: (_label_of(run, rows, ""), _label_of(run, columns, ""))).values())


def cell_of(figure: str, runs: Sequence[Result]) -> Cell:
    """Put the runs of a cell together."""
    ranked = figure not in NEITHER_IS_GOOD and any(run.about("method") != READS_ALL for run in runs)
    return Cell(figure, tuple(values_of(runs, figure)), len(runs), ranked, mixed_in(runs), tuple(runs))


def _label_of(result: Result, names: Sequence[str], figure: str) -> Label:
    """Name the row or column of a run."""
    return tuple(figure if name == FIGURE else written(result.about(name)) for name in names)


def _in_order(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Put labels in order, one setting after the other: numbers by size, all else as the grid has it, dashes last."""
    once = list(dict.fromkeys(labels))
    ranks: list[dict[str, tuple[bool, float]]] = []
    for values in map(dict.fromkeys, zip(*once, strict=True)):
        numbers = {value: _number_of(value) for value in values if value != NOTHING}
        sizes = {value: float(place) for place, value in enumerate(values)}
        if None not in numbers.values():
            sizes |= {value: number for value, number in numbers.items() if number is not None}
        ranks.append({value: (value == NOTHING, sizes[value]) for value in values})
    return tuple(sorted(once, key=lambda label: [rank[value] for rank, value in zip(ranks, label, strict=True)]))


def _number_of(text: str) -> float | None:
    """Read a number, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


def relative(table: _Pivot, results: Sequence[Result], row: str) -> _Pivot:
    """Divide all figures by the mean of one row in the same column, of runs with the same settings if it has several.

    :param results: Where the row is looked for, which may be more than the table shows.
    :param row: Values of the settings that tell rows apart, with commas between them.
    """
    asked = [name for name in table.row_names if name not in table.split]
    by_row = grouped(results, lambda result: ", ".join(_label_of(result, asked, "")))
    if row not in by_row:
        raise ConfigError(suggest(row, "a row of this table", by_row))
    cells: dict[tuple[Label, Label], Cell] = {}
    for (own, column), cell in table.cells.items():
        same = each_once(run for run in by_row[row] if _fits(run, table.column_names, column))
        held = alike(same, cell.runs)
        cells[own, column] = cell.over(values_of(held, cell.figure), mixed_in(held))
    return replace(table, cells=cells, relative=row)


def _fits(run: Result, names: Sequence[str], column: Label) -> bool:
    """Say whether a run belongs to a column; one that does not have a setting of it, such as a length, fits all."""
    about = {name: run.about(name) for name in names if name != FIGURE}
    return all(
        about.get(name) is None or written(about[name]) == value for name, value in zip(names, column, strict=True)
    )
