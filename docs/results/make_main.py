"""Lay out the main table beside the paper's, and what follows from it, from a folder of runs.

python docs/results/make_main.py RUNS [EXPERIMENT] > tables.md

RUNS is what `fresh run` wrote. The paper's figures are in paper.json.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from fresh.estimate import short
from fresh.experiment.folder import Runs
from fresh.experiment.results import MAIN, Result, grouped, read_results, values_of

PAPER = Path(__file__).with_name("paper.json")
FULL, OURS, GATES = "full text", "FRESH", ("Lei et al.", "Bastings et al.")
MISSING = "–"


class Cell(NamedTuple):
    """A row on one corpus, over seeds."""

    mean: float
    low: float
    high: float
    digits: int = 3
    few: int = 0
    """How many seeds there are, where that is fewer than elsewhere."""

    @property
    def spread(self) -> float:
        """How far the seeds are apart."""
        return self.high - self.low

    def __str__(self) -> str:
        mean, low, high = (short(value)[: self.digits + 1] for value in self[:3])
        if self.few == 1:
            return f"{mean} (one seed)"
        return f"{mean} ({low}–{high}{f'; {self.few} seeds' if self.few else ''})"


Table = dict[str, dict[str, Cell]]
"""Cells by row and corpus."""


def table_of(results: list[Result]) -> Table:
    """Put seeds together."""
    table: Table = {}
    most = len({result.seed for result in results})
    for row, own in grouped(results, lambda result: result.row).items():
        for corpus, some in grouped(own, lambda result: result.corpus).items():
            values = values_of(some, MAIN)
            if values:
                mean = sum(values) / len(values)
                table.setdefault(row, {})[corpus] = Cell(
                    mean, min(values), max(values), few=0 if len(values) == most else len(values)
                )
    return table


def papers() -> Table:
    """Read what the paper reports."""
    told = json.loads(PAPER.read_text(encoding="utf-8"))
    rows = {row: cells for row, cells in told.items() if row != "about"}
    return {
        row: {corpus: Cell(mean, low, high, 2) for corpus, (mean, low, high) in cells.items()}
        for row, cells in rows.items()
    }


def lines(heads: list[str], rows: list[list[str]]) -> str:
    """Write a table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)) + "\n"


def side_by_side(ours: Table, paper: Table, corpora: list[str]) -> str:
    """Lay out our figures, the paper's below each."""
    rows: list[list[str]] = []
    for row, cells in ours.items():
        rows.append([row, *(str(cells.get(corpus, MISSING)) for corpus in corpora)])
        if row in paper:
            rows.append(["*the paper*", *(f"*{paper[row].get(corpus, MISSING)}*" for corpus in corpora)])
    return lines(["test macro-F1", *corpora], rows)


def best(table: Table, corpus: str, beginnings: tuple[str, ...]) -> tuple[str, Cell] | None:
    """Find the best row of some kind on a corpus, of those that have all seeds."""
    whole = [(row, cells[corpus]) for row, cells in table.items() if corpus in cells and not cells[corpus].few]
    found = [(row, cell) for row, cell in whole if row.startswith(beginnings)]
    return max(found, key=lambda item: item[1].mean, default=None)


def goals(table: Table, corpora: list[str]) -> str:
    """Lay out what share of the full text's score the best rationales keep, whether they beat gates, and spreads."""
    rows: list[list[str]] = []
    for corpus in corpora:
        ours, gate, full = best(table, corpus, (OURS,)), best(table, corpus, GATES), table.get(FULL, {}).get(corpus)
        if ours is None or full is None:
            continue
        own = [f"{ours[0]}: {short(ours[1].mean)}", f"{ours[1].mean / full.mean:.1%}"]
        lei = best(table, corpus, GATES[:1])
        held = [MISSING] if gate is None else [f"{gate[0]}: {short(gate[1].mean)}"]
        spreads = [short(ours[1].spread), MISSING if lei is None else short(lei[1].spread)]
        rows.append([corpus, short(full.mean), *own, *held, *spreads])
    heads = ["corpus", FULL, "best FRESH", "of full text", "best gate", "spread of that FRESH", "spread of best Lei"]
    return lines(heads, rows)


def fixed(table: Table, corpora: list[str]) -> str:
    """Lay out each single variant of FRESH against full text, where both have all seeds."""
    rows: list[list[str]] = []
    for row, cells in table.items():
        if row.startswith(OURS):
            pairs = [(cells.get(corpus), table[FULL].get(corpus)) for corpus in corpora]
            shares = [
                ours.mean / full.mean if ours and full and not (ours.few or full.few) else None for ours, full in pairs
            ]
            rows.append([row, *(MISSING if share is None else f"{share:.1%}" for share in shares)])
    return lines(["share of full text", *corpora], rows)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("experiment", nargs="?", default="main")
    args = parser.parse_args()
    results = read_results(Runs(args.runs), args.experiment)
    table = table_of(results)
    order = [corpus for corpus in papers()[FULL] if any(corpus in cells for cells in table.values())]
    print(side_by_side(table, papers(), order))
    print(goals(table, order))
    print(fixed(table, order))


if __name__ == "__main__":
    main()
