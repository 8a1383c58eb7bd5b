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
    """How many seeds there are, where that is fewer than there should be."""

    @property
    def spread(self) -> float:
        """How far the seeds are apart."""
        return self.high - self.low

    def __str__(self) -> str:
        mean, low, high = (short(value)[: self.digits + 1] for value in self[:3])
        few = "" if not self.few else "one seed" if self.few == 1 else f"{self.few} seeds"
        return f"{mean} ({'; '.join(filter(None, (f'{low}–{high}' if self.few != 1 else '', few)))})"


Table = dict[str, dict[str, Cell]]
"""Cells by row and corpus."""


def table_of(results: Sequence[RunResult]) -> Table:
    """Put seeds together."""
    table: Table = {}
    for (row, corpus), some in group_by(results, lambda result: (result.row, result.corpus)).items():
        values = metric_values(some, MAIN_METRIC)
        if values:
            few = 0 if len(values) == len(some) else len(values)
            table.setdefault(row, {})[corpus] = Cell(fmean(values), min(values), max(values), few=few)
    return table


def markdown_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table in Markdown."""
    listed = [list(heads), *map(list, rows)]
    listed.insert(1, ["---"] * len(listed[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in listed)


def compare_with_paper(results: Sequence[RunResult]) -> str:
    """Lay out our figures, the paper's below each."""
    ours = table_of(results)
    corpora = [corpus for corpus in CORPORA if any(corpus in cells for cells in ours.values())]
    rows: list[list[str]] = []
    for row, cells in ours.items():
        rows.append([row, *(str(cells.get(corpus, MISSING)) for corpus in corpora)])
        if row in PAPER["main"]:
            cells_of = PAPER["main"][row].items()
            paper = {corpus: Cell(mean, low, high, 2) for corpus, (mean, low, high) in cells_of}
            rows.append(["*the paper*", *(f"*{paper.get(corpus, MISSING)}*" for corpus in corpora)])
    return markdown_table(["test macro-F1", *(CORPORA[corpus] for corpus in corpora)], rows)


def best(table: Table, corpus: str, beginnings: tuple[str, ...]) -> tuple[str, Cell] | None:
    """Find the best row of some kind on a corpus, of those that have all seeds."""
    whole = [(row, cells[corpus]) for row, cells in table.items() if corpus in cells and not cells[corpus].few]
    found = [(row, cell) for row, cell in whole if row.startswith(beginnings)]
    return max(found, key=lambda item: item[1].mean, default=None)


def goals(results: Sequence[RunResult]) -> str:
    """Lay out what share of the full text's score the best rationales keep, whether they beat gates, and spreads."""
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
    return markdown_table(heads, rows)


def share(part: float, whole: float) -> str:
    """Write a part of something."""
    return f"{part / whole:.1%}"


def shares(results: Sequence[RunResult]) -> str:
    """Lay out each single variant of FRESH against full text, where both have all seeds."""
    table = table_of(results)
    rows: list[list[str]] = []
    for row, cells in table.items():
        if row.startswith(OURS):
            pairs = [(cells.get(corpus), table.get(FULL, {}).get(corpus)) for corpus in CORPORA]
            whole = [(one, full) if one and full and not (one.few or full.few) else None for one, full in pairs]
            rows.append([row, *(share(pair[0].mean, pair[1].mean) if pair else MISSING for pair in whole)])
    return markdown_table(["share of full text", *CORPORA.values()], rows)


def spreads(results: Sequence[RunResult]) -> str:
    """Lay out how far seeds are apart; in bold, where less than those of Lei et al. with words of the same kind."""
    table = table_of(results)
    rows: list[list[str]] = []
    for row, cells in table.items():
        kind = row.rpartition(", ")[2]
        lei = table.get(f"{GATES[0]}, {kind}", {})
        if lei and row.startswith((OURS, GATES[0])):
            shown = [row]
            for own, other in ((cells.get(corpus), lei.get(corpus)) for corpus in CORPORA):
                if own is None or own.few:
                    shown.append(MISSING)
                    continue
                is_smaller = other is not None and not other.few and own.spread < other.spread
                shown.append(f"**{short(own.spread)}**" if is_smaller else short(own.spread))
            rows.append(shown)
    return markdown_table(["highest seed less lowest", *CORPORA.values()], rows)


def shorter(results: Sequence[RunResult]) -> str:
    """Lay out shorter rationales, and their share of what the same seeds reach with the full text."""
    wanted = [f"{row}, ratio {ratio}" for row, ratios in SHORTER.items() for ratio in ratios]
    rows = [[row, *(against(results, row, corpus) for corpus in CORPORA)] for row in wanted]
    return markdown_table(["macro-F1, share of full text", *CORPORA.values()], rows)


def against(results: Sequence[RunResult], row: str, corpus: str) -> str:
    """Hold a row against the full text, seed by seed."""
    own = [result for result in results if (result.corpus, result.row) == (corpus, row)]
    full, scores = (
        {run.seed: run.metrics[MAIN_METRIC] for run in runs if MAIN_METRIC in run.metrics}
        for runs in ([run for run in results if (run.corpus, run.row) == (corpus, FULL)], own)
    )
    shared = [seed for seed in scores if seed in full]
    if not shared:
        return MISSING
    mean = fmean(scores[seed] for seed in shared)
    whole = fmean(full[seed] for seed in shared)
    return f"{short(mean)}, {share(mean, whole)}{few_of(len(shared), len(own))}"


def few_of(n_done: int, n_all: int) -> str:
    """Say how many seeds there are where some are missing."""
    return "" if n_done == n_all else " (one seed)" if n_done == 1 else f" ({n_done} seeds)"


def human(results: Sequence[RunResult]) -> str:
    """Lay out training with people's marks: macro-F1, and agreement with people, by the share of marked documents."""
    rows: list[list[str]] = []
    for (corpus, row), own in group_by(results, lambda run: (run.corpus, run.row.partition(", human")[0])).items():
        if not any(run.metrics for run in own):
            continue
        cells: list[str] = []
        for part in SHARES:
            runs = [run for run in own if run.settings.get("human") == part]
            scores, agreement = metric_values(runs, MAIN_METRIC), metric_values(runs, "token F1")
            few = few_of(len(scores), len(runs))
            cells.append(f"{short(fmean(scores))}, {short(fmean(agreement))}{few}" if scores and agreement else MISSING)
        rows.append([CORPORA[corpus], row, *cells])
    heads = [f"{part:.0%}" for part in SHARES]
    return markdown_table(["corpus", "macro-F1, token F1 against people", *heads], rows)


def global_budgets(results: Sequence[RunResult]) -> str:
    """Lay out budgets for all documents against one for each, with the paper's differences."""
    kinds = ("contiguous", "top_k")
    tables = [welch_table(results, [Contrast("discretizer", f"global_{kind}", kind)]) for kind in kinds]
    records: list[Mapping[str, Any]] = [record for table in tables for record in table.to_table().records]
    rows: list[list[str]] = []
    for corpus, scorer, kind in product(CORPORA, ("gradient", "attention"), kinds):
        own = {"corpus": corpus, "scorer": scorer, "second": kind}
        record = next((record for record in records if own.items() <= record.items()), None)
        difference, p = PAPER["global"][corpus].get(f"{scorer}, {kind}", (None, None))
        paper = [MISSING, MISSING] if p is None else [signed(difference), short(p)]
        ours = [MISSING, MISSING]
        if record is not None and record["p"] != "":
            n_seeds = len({result.seed for result in results if result.corpus == corpus})
            few = f" ({record['n of first']} and {record['n of second']} seeds)"
            is_whole = {record["n of first"], record["n of second"]} == {n_seeds}
            ours = [signed(record["difference"]) + ("" if is_whole else few), short(record["p"])]
        rows.append([CORPORA[corpus], scorer, kind, *ours, *(f"*{text}*" for text in paper)])
    return markdown_table(["corpus", "scorer", "words", "difference", "p", "*the paper's*", "*its p*"], rows)


def headline(results: Sequence[RunResult]) -> str:
    """Lay out what the front page shows."""
    table = table_of(results)
    rows: list[list[str]] = []
    for corpus, name in CORPORA.items():
        found = [
            best(table, corpus, row) if isinstance(row, tuple) else (row, table[row].get(corpus))
            for row in HEADLINE.values()
        ]
        rows.append([name, *(short(one[1].mean) if one and one[1] else MISSING for one in found)])
    return markdown_table(["", *HEADLINE], rows)


def standing(runs: RunStore) -> str:
    """Say how many runs of each experiment are done."""
    rows: list[list[str]] = []
    for name in runs.experiments():
        results = read_results(runs, name)
        own = {corpus: unique_runs(run for run in results if run.corpus == corpus) for corpus in CORPORA}
        counts = [f"{sum(bool(run.report) for run in some)} of {len(some)}" if some else "" for some in own.values()]
        rows.append([f"`{name}.toml`", *counts])
    return markdown_table(["runs that are done", *CORPORA.values()], rows)
