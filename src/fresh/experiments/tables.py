"""The table of an experiment: any setting down, any across, a metric over the seeds in each cell."""

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fresh.experiments.results import (
    MAIN_METRIC,
    MISSING,
    TIMED,
    RunResult,
    check_known,
    check_metrics,
    check_names,
    distinguishing_settings,
    group_by,
    matching_runs,
    mean_and_range,
    metric_values,
    mixed_settings,
    status,
    unique_runs,
)
from fresh.reporting.tables import Table

# pandas would not make this shorter: labels keep the order of the grid, and a cell keeps its runs, to check that they
# differ only in the seed. Without pandas, `fresh table` works with the base installation, and starts at once.

METRIC = "figure"  # name that stands for the metric, as if it were a setting
LOW_IS_GOOD = (*TIMED, "unread")
NEITHER_IS_GOOD = ("kept",)
READS_ALL = "full_text"  # the method that selects no words, and is not ranked among those that do
MIXED = "†"  # marks a cell whose runs differ in more than the seed
NAME_ONE = "Name one experiment: fresh table RUNS EXPERIMENT."

Label = tuple[str, ...]  # the values of the settings that make a row or a column


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of runs that should differ only in their seeds."""

    metric: str
    values: tuple[float, ...]
    n_planned: int  # number of values when all runs are done
    ranked: bool = True  # whether it may be the best of its column
    mixed: tuple[str, ...] = ()  # how its runs differ besides the seed
    runs: tuple[RunResult, ...] = field(default=(), repr=False)

    @property
    def is_complete(self) -> bool:
        """Whether all its runs are done."""
        return len(self.values) == self.n_planned

    @property
    def mean(self) -> float:
        """Mean over the runs that are done."""
        return statistics.fmean(self.values)

    def relative_to(self, reference: Sequence[float], mixed: Iterable[str] = ()) -> "Cell":
        """Divide by the mean of a reference, whose runs may be `mixed`; without one, or by 0, the cell is empty."""
        mean = statistics.fmean(reference) if reference else 0.0
        values = tuple(value / mean for value in self.values) if mean else ()
        return replace(self, values=values, mixed=tuple(dict.fromkeys((*self.mixed, *mixed))))

    def __str__(self) -> str:
        count = "" if self.is_complete else f"{len(self.values)}/{self.n_planned}"
        return " ".join(filter(None, (mean_and_range(self.values), count, MIXED if self.mixed else "")))


@dataclass(frozen=True, slots=True)
class PivotTable:
    """Cells by row and column."""

    row_names: tuple[str, ...]  # the settings that make rows
    column_names: tuple[str, ...]
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: Mapping[tuple[Label, Label], Cell]
    split: tuple[str, ...] = ()  # settings of rows that were added because cells would be mixed without them
    results: tuple[RunResult, ...] = field(default=(), repr=False)
    reference: str = ""  # the row by which all metrics are divided

    @property
    def mixed(self) -> tuple[str, ...]:
        """How runs of one cell differ besides the seed."""
        return tuple(dict.fromkeys(name for cell in self.cells.values() for name in cell.mixed))

    def best(self) -> Iterator[tuple[Label, Label]]:
        """Find the best cells of each column among those that are complete and not mixed."""
        rivals: dict[tuple[Label, str], dict[Label, float]] = {}
        for (row, column), cell in self.cells.items():
            if cell.ranked and cell.is_complete and cell.values and not cell.mixed:
                sign = -1 if cell.metric in LOW_IS_GOOD else 1
                # With as many digits as a cell shows: two cells that look equal are both bold.
                rivals.setdefault((column, cell.metric), {})[row] = sign * round(cell.mean, 3)
        for (column, _), means in rivals.items():
            if len(means) > 1:
                yield from ((row, column) for row, mean in means.items() if mean == max(means.values()))

    def to_table(self, marked: bool = True) -> Table:
        """Format the table; unless `marked`, without notes on bold cells and marks, which CSV does not have."""
        n_labels, rows, columns = len(self.row_names), self.rows, self.columns
        header = (*self.row_names, *(", ".join(column) for column in columns))
        lines = [(*row, *(str(self.cells.get((row, column), MISSING)) for column in columns)) for row in rows]
        best = frozenset((rows.index(row), n_labels + columns.index(column)) for row, column in self.best())
        notes = tuple(self._notes(bool(best), marked))
        return Table(header, tuple(lines), tuple(self.records()), n_labels, best, notes)

    def records(self) -> Iterator[dict[str, object]]:
        """Return each cell with full precision."""
        for (row, column), cell in self.cells.items():
            about = dict(zip((*self.row_names, *self.column_names), (*row, *column), strict=True))
            values: dict[str, object] = dict.fromkeys(("mean", "min", "max", "standard deviation"), "")
            if cell.values:
                values |= {"mean": cell.mean, "min": min(cell.values), "max": max(cell.values)}
            if len(cell.values) > 1:
                values["standard deviation"] = statistics.stdev(cell.values)
            mixed = {"differ in": ", ".join(cell.mixed)} if self.mixed else {}
            yield {**about, METRIC: cell.metric, **values, "n": len(cell.values), "planned": cell.n_planned, **mixed}

    def _notes(self, has_best: bool, marked: bool) -> Iterator[str]:
        metrics = ", ".join(dict.fromkeys(cell.metric for cell in self.cells.values()))
        same = f" with the same {' and '.join(self.split)}" if self.split else ""
        share = f" as a share of the mean of {self.reference}{same} in the same column" if self.reference else ""
        yield f"{metrics}{share}: mean (min–max) over {'runs' if self.mixed else 'seeds'}."
        if marked and has_best:
            has_full_text = any(result.get("method") == READS_ALL for result in self.results)
            yield f"Bold: the best mean of a column{', full text left out' if has_full_text else ''}."
        incomplete = [cell for cell in self.cells.values() if not cell.is_complete]
        if marked and incomplete:
            n_done, n_planned = max((len(cell.values), cell.n_planned) for cell in incomplete)
            runs = "runs" if self.mixed else "seeds"
            yield f"{n_done}/{n_planned}: {n_done} of {n_planned} {runs} are done; such cells are not ranked."
        if self.mixed:
            mixed = ", ".join(self.mixed)
            names = distinguishing_settings(cell.runs for cell in self.cells.values())
            hint = f"Separate them: rows={','.join((*self.row_names, *names))!r}." if names else NAME_ONE
            if marked:
                yield f"{MIXED}: runs that also differ in {mixed}; such cells are not ranked. {hint}"
            else:
                yield f"differ in: runs in one cell also differ in {mixed}. {hint}"
        yield from status(self.results)


def pivot(
    results: Sequence[RunResult],
    metrics: Sequence[str] = (MAIN_METRIC,),
    rows: Sequence[str] | None = None,
    columns: Sequence[str] = ("corpus",),
) -> PivotTable:
    """Group runs into the cells of a table.

    :param metrics: Names of metrics; several make a column each unless ``rows`` or ``columns`` name "figure".
    :param rows: Settings, or "row", "corpus" or "seed". By default the rows of the grid; rows whose runs differ in more
        than the seed are split.
    :param columns: The same for columns.
    """
    check_names(results, (*(rows or ()), *columns), extra=(METRIC,))
    check_metrics(results, metrics)
    split = distinguishing_settings(group_cells(results, ("row",), columns)) if rows is None else ()
    down = ("row", *split) if rows is None else tuple(rows)
    across = (*columns, METRIC) if len(metrics) > 1 and METRIC not in (*down, *columns) else tuple(columns)
    cells: dict[tuple[Label, Label], Cell] = {}
    for metric in metrics:
        groups = group_by(results, lambda run: (_label(run, down, metric), _label(run, across, metric)))  # noqa: B023
        cells |= {place: make_cell(metric, unique_runs(runs)) for place, runs in groups.items()}
    row_labels, column_labels = _sort_labels(row for row, _ in cells), _sort_labels(column for _, column in cells)
    ordered = {place: cells[place] for place in itertools.product(row_labels, column_labels) if place in cells}
    return PivotTable(down, across, row_labels, column_labels, ordered, split, tuple(results))


def group_cells(results: Sequence[RunResult], rows: Sequence[str], columns: Sequence[str]) -> list[list[RunResult]]:
    """Group runs by cells."""
    return list(group_by(results, lambda run: (_label(run, rows, ""), _label(run, columns, ""))).values())


def make_cell(metric: str, runs: Sequence[RunResult]) -> Cell:
    """Make the cell of some runs."""
    ranked = metric not in NEITHER_IS_GOOD and any(run.get("method") != READS_ALL for run in runs)
    return Cell(metric, tuple(metric_values(runs, metric)), len(runs), ranked, mixed_settings(runs), tuple(runs))


def _label(result: RunResult, names: Sequence[str], metric: str) -> Label:
    return tuple(metric if name == METRIC else value for name, value in zip(names, result.label(names), strict=True))


def _sort_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    # By one setting after the other: numbers by size, names in the order of the grid, dashes last.
    unique = list(dict.fromkeys(labels))
    ranks: list[dict[str, tuple[bool, float]]] = []
    for values in map(dict.fromkeys, zip(*unique, strict=True)):
        try:
            sizes = {value: float(value) for value in values if value != MISSING}
        except ValueError:
            sizes = {value: float(place) for place, value in enumerate(values)}
        ranks.append({value: (value == MISSING, sizes.get(value, 0.0)) for value in values})
    return tuple(sorted(unique, key=lambda label: [rank[value] for rank, value in zip(ranks, label, strict=True)]))


def divide_by_row(table: PivotTable, results: Sequence[RunResult], row: str) -> PivotTable:
    """Divide all metrics by the mean of one row in the same column, over runs with the same settings.

    :param row: Values of the settings that make rows, separated by commas; the table may leave out this row.
    """
    names = [name for name in table.row_names if name not in table.split]
    by_row = group_by(results, lambda result: ", ".join(_label(result, names, "")))
    check_known([row], "a row of this table", by_row)
    cells: dict[tuple[Label, Label], Cell] = {}
    for (own, column), cell in table.cells.items():
        same = unique_runs(run for run in by_row[row] if _is_in_column(run, table.column_names, column))
        reference = matching_runs(same, cell.runs)
        cells[own, column] = cell.relative_to(metric_values(reference, cell.metric), mixed_settings(reference))
    return replace(table, cells=cells, reference=row)


def _is_in_column(run: RunResult, names: Sequence[str], column: Label) -> bool:
    # A run without a setting fits all of its columns: full text is the reference at every ratio.
    pairs = zip(names, column, strict=True)
    return all(name == METRIC or run.get(name) is None or run.label([name]) == (value,) for name, value in pairs)
