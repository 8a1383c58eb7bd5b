"""The tables of the result pages, from reports of runs; the paper's figures, from paper.json, beside them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from fresh.experiments.results import MAIN_METRIC, RunResult, group_by, metric_values, read_results, unique_runs
from fresh.experiments.significance import Contrast, signed, welch_table
from fresh.experiments.store import RunStore
from fresh.metrics.bootstrap import short

PAPER: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
CORPORA = {"sst": "SST", "agnews": "AG News", "evinf": "Evidence Inference", "movies": "Movies", "multirc": "MultiRC"}
FULL, OURS, GATES = "full text", "FRESH", ("Lei et al.", "Bastings et al.")
MISSING = "–"
SHORTER = {
    "FRESH, attention x gradient": ("0.25x", "0.5x"),
    "FRESH, integrated gradients": ("0.5x",),
    "FRESH, attention": ("0.5x",),
    "Lei et al.": ("0.5x",),
    "random words": ("0.5x",),
}
"""Rows of shorter rationales."""
HEADLINE: dict[str, str | tuple[str, ...]] = {
    FULL: FULL,
    "attention × gradient (default)": "FRESH, attention x gradient, top_k",
    "integrated gradients": "FRESH, integrated gradients, top_k",
    "attention": "FRESH, attention, top_k",
    "best gate": GATES,
    "random words": "random words, top_k",
}
"""Rows that the front page shows, by what they are called there; of several the best."""
SHARES = (0.0, 0.2, 0.5, 1.0)
"""Of documents that people marked."""


class Cell(NamedTuple):
    """A row on one corpus, over seeds."""

    mean: float
    low: float
    high: float
    digits: int = 3
    few: int = 0
    """Number of seeds if some are missing, else 0."""

    @property
    def spread(self) -> float:
        """Difference between the best and the worst seed."""
        return self.high - self.low

    def __str__(self) -> str:
        mean, low, high = (short(value)[: self.digits + 1] for value in self[:3])
        few = "" if not self.few else "one seed" if self.few == 1 else f"{self.few} seeds"
        return f"{mean} ({'; '.join(filter(None, (f'{low}–{high}' if self.few != 1 else '', few)))})"


Table = dict[str, dict[str, Cell]]
"""Cells by row and corpus."""


def table_of(results: Sequence[RunResult]) -> Table:
    """Summarize the seeds of each row and corpus."""
    table: Table = {}
    for (row, corpus), some in group_by(results, lambda result: (result.row, result.corpus)).items():
        values = metric_values(some, MAIN_METRIC)
        if values:
            few = 0 if len(values) == len(some) else len(values)
            table.setdefault(row, {})[corpus] = Cell(fmean(values), min(values), max(values), few=few)
    return table


def papers() -> Table:
    """Give the paper's main table."""
    return {
        row: {corpus: Cell(mean, low, high, 2) for corpus, (mean, low, high) in cells.items()}
        for row, cells in PAPER["main"].items()
    }


def lines(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table in Markdown."""
    listed = [list(heads), *map(list, rows)]
    listed.insert(1, ["---"] * len(listed[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in listed)


def side_by_side(results: Sequence[RunResult]) -> str:
    """Tabulate our figures, with the paper's below each."""
    ours, paper = table_of(results), papers()
    corpora = [corpus for corpus in CORPORA if any(corpus in cells for cells in ours.values())]
    rows: list[list[str]] = []
    for row, cells in ours.items():
        rows.append([row, *(str(cells.get(corpus, MISSING)) for corpus in corpora)])
        if row in paper:
            rows.append(["*the paper*", *(f"*{paper[row].get(corpus, MISSING)}*" for corpus in corpora)])
    return lines(["test macro-F1", *(CORPORA[corpus] for corpus in corpora)], rows)


def best(table: Table, corpus: str, beginnings: tuple[str, ...]) -> tuple[str, Cell] | None:
    """Find the best row of some kind on a corpus, of those that have all seeds."""
    whole = [(row, cells[corpus]) for row, cells in table.items() if corpus in cells and not cells[corpus].few]
    found = [(row, cell) for row, cell in whole if row.startswith(beginnings)]
    return max(found, key=lambda item: item[1].mean, default=None)


def goals(results: Sequence[RunResult]) -> str:
    """Tabulate the best rationales beside full text and the best gate, with the spreads over seeds."""
    table = table_of(results)
    rows: list[list[str]] = []
    for corpus, name in CORPORA.items():
        ours, gate, lei = (best(table, corpus, kinds) for kinds in ((OURS,), GATES, GATES[:1]))
        full = table.get(FULL, {}).get(corpus)
        if ours and gate and lei and full and not full.few:
            kept = [f"{ours[0]}: {short(ours[1].mean)}", share(ours[1].mean, full.mean)]
            spreads = [short(ours[1].spread), short(lei[1].spread)]
            rows.append([name, short(full.mean), *kept, f"{gate[0]}: {short(gate[1].mean)}", *spreads])
    heads = ["corpus", FULL, "best FRESH", "of full text", "best gate", "spread of that FRESH", "spread of best Lei"]
    return lines(heads, rows)


def share(part: float, whole: float) -> str:
    """Write a part of something."""
    return f"{part / whole:.1%}"


def shares(results: Sequence[RunResult]) -> str:
    """Tabulate each variant of FRESH as a share of full text, where both have all seeds."""
    table = table_of(results)
    rows: list[list[str]] = []
    for row, cells in table.items():
        if row.startswith(OURS):
            pairs = [(cells.get(corpus), table.get(FULL, {}).get(corpus)) for corpus in CORPORA]
            whole = [(one, full) if one and full and not (one.few or full.few) else None for one, full in pairs]
            rows.append([row, *(share(pair[0].mean, pair[1].mean) if pair else MISSING for pair in whole)])
    return lines(["share of full text", *CORPORA.values()], rows)


def spreads(results: Sequence[RunResult]) -> str:
    """Tabulate ranges over seeds; those narrower than that of Lei et al. with the same discretizer are bold."""
    table = table_of(results)
    rows: list[list[str]] = []
    for row, cells in table.items():
        kind = row.rpartition(", ")[2]
        lei = table.get(f"{GATES[0]}, {kind}", {})
        if lei and row.startswith((OURS, GATES[0])):
            pairs = [(cells.get(corpus), lei.get(corpus)) for corpus in CORPORA]
            rows.append([row, *(apart(own, other) for own, other in pairs)])
    return lines(["highest seed less lowest", *CORPORA.values()], rows)


def apart(own: Cell | None, lei: Cell | None) -> str:
    """Format the range over seeds of a row, in bold if it is narrower than that of Lei et al."""
    if own is None or own.few:
        return MISSING
    less = lei is not None and not lei.few and own.spread < lei.spread
    return f"**{short(own.spread)}**" if less else short(own.spread)


def shorter(results: Sequence[RunResult]) -> str:
    """Tabulate shorter rationales, also as a share of full text with the same seeds."""
    wanted = [f"{row}, ratio {ratio}" for row, ratios in SHORTER.items() for ratio in ratios]
    rows = [[row, *(against(results, row, corpus) for corpus in CORPORA)] for row in wanted]
    return lines(["macro-F1, share of full text", *CORPORA.values()], rows)


def against(results: Sequence[RunResult], row: str, corpus: str) -> str:
    """Compare a row with full text over the seeds that both have."""
    there = [result for result in results if result.corpus == corpus]
    full = {
        result.seed: result.metrics[MAIN_METRIC]
        for result in there
        if result.row == FULL and MAIN_METRIC in result.metrics
    }
    own = [result for result in there if result.row == row]
    found = {
        result.seed: result.metrics[MAIN_METRIC]
        for result in own
        if MAIN_METRIC in result.metrics and result.seed in full
    }
    if not found:
        return MISSING
    mean = fmean(list(found.values()))
    text = f"{short(mean)}, {share(mean, fmean([full[seed] for seed in found]))}"
    return text + few_of(len(found), len(own))


def few_of(n_done: int, n_all: int) -> str:
    """Note the number of seeds where some are missing."""
    return "" if n_done == n_all else " (one seed)" if n_done == 1 else f" ({n_done} seeds)"


def human(results: Sequence[RunResult]) -> str:
    """Tabulate training with human rationales: macro-F1, and agreement with people."""
    rows = [
        [CORPORA[corpus], row, *(taught(own, part) for part in SHARES)]
        for (corpus, row), own in group_by(results, lambda run: (run.corpus, run.row.partition(", human")[0])).items()
        if any(run.metrics for run in own)
    ]
    heads = [f"{part:.0%}" for part in SHARES]
    return lines(["corpus", "macro-F1, token F1 against people", *heads], rows)


def taught(results: Sequence[RunResult], part: float) -> str:
    """Format the result with a share of the human rationales."""
    own = [result for result in results if result.settings.get("human") == part]
    scores, agreement = metric_values(own, MAIN_METRIC), metric_values(own, "token F1")
    if not scores or not agreement:
        return MISSING
    return f"{short(fmean(scores))}, {short(fmean(agreement))}{few_of(len(scores), len(own))}"


def one_for_all(results: Sequence[RunResult]) -> str:
    """Tabulate budgets for all documents against one for each, with the paper's differences."""
    kinds = ("contiguous", "top_k")
    tables = [welch_table(results, [Contrast("discretizer", f"global_{kind}", kind)]) for kind in kinds]
    records = [record for table in tables for record in table.to_table().records]
    rows: list[list[str]] = []
    for corpus, scorer, kind in product(CORPORA, ("gradient", "attention"), kinds):
        own = {"corpus": corpus, "scorer": scorer, "second": kind}
        found = next((record for record in records if own.items() <= record.items()), None)
        difference, p = PAPER["global"][corpus].get(f"{scorer}, {kind}", (None, None))
        paper = [MISSING, MISSING] if p is None else [signed(difference), short(p)]
        n_seeds = len({result.seed for result in results if result.corpus == corpus})
        rows.append([CORPORA[corpus], scorer, kind, *differing(found, n_seeds), *(f"*{text}*" for text in paper)])
    return lines(["corpus", "scorer", "words", "difference", "p", "*the paper's*", "*its p*"], rows)


def differing(record: Mapping[str, Any] | None, n_seeds: int) -> list[str]:
    """Format the difference between two kinds of budget, with the number of seeds where some are missing."""
    if record is None or record["p"] == "":
        return [MISSING, MISSING]
    counts = {record["n of first"], record["n of second"]}
    few = "" if counts == {n_seeds} else f" ({record['n of first']} and {record['n of second']} seeds)"
    return [signed(record["difference"]) + few, short(record["p"])]


def headline(results: Sequence[RunResult]) -> str:
    """Make the table of the front page."""
    table = table_of(results)
    rows: list[list[str]] = []
    for corpus, name in CORPORA.items():
        found = [
            best(table, corpus, row) if isinstance(row, tuple) else (row, table[row].get(corpus))
            for row in HEADLINE.values()
        ]
        rows.append([name, *(short(one[1].mean) if one and one[1] else MISSING for one in found)])
    return lines(["", *HEADLINE], rows)


def standing(runs: RunStore) -> str:
    """Count the finished runs of each experiment."""
    rows: list[list[str]] = []
    for name in runs.experiments():
        results = read_results(runs, name)
        own = {corpus: unique_runs(run for run in results if run.corpus == corpus) for corpus in CORPORA}
        counts = [f"{sum(bool(run.report) for run in some)} of {len(some)}" if some else "" for some in own.values()]
        rows.append([f"`{name}.toml`", *counts])
    return lines(["runs that are done", *CORPORA.values()], rows)
