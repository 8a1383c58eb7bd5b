"""Make the tables and figures of main.md, and the table of the front page, from reports of runs.

python docs/results/make_results.py                   from runs.tgz
python docs/results/make_results.py RUNS              first add new plans and reports of the folder RUNS to runs.tgz
python docs/results/make_results.py RUNS --renew      the same, and replace those that runs.tgz has already
python docs/results/make_results.py --check           list what is out of date, and change nothing

Tables stand between marks, <!-- NAME --> and <!-- end -->; the text around them stays as it is.
"""

import argparse
import functools
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import proof_tables
import result_tables
import result_times

from fresh._io import atomic_write, write_text
from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.figures import FigureData, figure_data, read_figure_config
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plot import plot_figure
from fresh.experiments.results import RunResult, make_manifest, read_results
from fresh.experiments.store import PLANS, REPORT, TIMES, RunStore, check_folder
from fresh.text import plural

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
REPORTS, MANIFEST = HERE / "runs.tgz", HERE / "manifest.json"
PAGES = (HERE / "main.md", HERE / "proof.md", HERE / "README.md", HERE.parents[1] / "README.md")
MARK = re.compile(r"<!-- (.*?) -->")
MARKED_TABLE = re.compile(r"<!-- ([^>]*?) -->\n(?:(?!<!-- ).*\n)*<!-- end -->")
"""A mark, lines without one, and the end mark."""
TABLES = {
    "main table": ("main", result_tables.compare_with_paper),
    "goals": ("main", result_tables.goals),
    "shares": ("main", result_tables.shares),
    "spreads": ("main", result_tables.spreads),
    "card time": ("main", result_times.card_time),
    "headline": ("main", result_tables.headline),
    "base size": ("mpnet", result_tables.compare_with_paper),
    "lengths": ("lengths", result_tables.shorter),
    "human": ("human", result_tables.human),
    "global": ("global", result_tables.global_budgets),
    "asked": ("proof", proof_tables.asked),
    "readers": ("proof", proof_tables.readers),
    "independent": ("proof", proof_tables.independent),
    "evidence": ("proof", proof_tables.evidence),
}
"""Name of a table in its mark: experiment, and the function that makes the table."""
STANDING = "standing"
FIGURES: dict[str, tuple[str, Mapping[str, str]]] = {
    "lengths": ("lengths", {}),
    "human": ("human", {}),
    "search": ("search", {}),
    "search-lengths": ("search", {"kind": "scatter", "x": "kept by gate", "y": "dev macro-F1"}),
}
"""File name of a figure: experiment, and options that override the [figure] of its grid file."""


def main() -> None:
    """Make all pages and figures, or list those that are out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, help="folder of runs whose reports are added")
    parser.add_argument("--renew", action="store_true", help="replace plans and reports that runs.tgz has already")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of date")
    args = parser.parse_args()
    if args.check and args.runs is not None:
        parser.error("--check compares the pages with runs.tgz. Leave the folder out.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            runs = unpack(Path(folder))
            if args.runs is not None:
                print(add(RunStore(args.runs), runs, args.renew))
            problem = update(runs, args.check)
            if args.runs is not None:
                pack(runs)
    except ConfigError as error:
        sys.exit(str(error))
    sys.exit(problem)


def update(runs: RunStore, check: bool) -> str | None:
    """Write the pages and figures that are out of date; with `check`, only list them in a message."""
    figures = collect_figures(runs)
    texts = {**fill_pages(runs), MANIFEST: describe_experiments(runs, figures)}
    old = [page for page, text in texts.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    files = {name: [HERE / f"{name}.png", HERE / f"{name}.svg"] for name in figures}
    if check:
        missing = [file for name in figures for file in files[name] if not file.exists()]
        names = ", ".join(str(page.relative_to(HERE.parents[1])) for page in (*old, *missing))
        return f"Not up to date with runs.tgz: {names}. To make them again: make results." if names else None
    for page in old:
        write_text(page, texts[page])
    for name, figure in figures.items():
        plot_figure(figure, files[name])
    return None


def add(new: RunStore, old: RunStore, renew: bool) -> str:
    """Add plans and reports of a folder of runs, and describe what was added.

    A plan with only some of the runs of the known plan was made for a part of the grid, and is not taken.
    """
    check_folder(new.path)
    if not new.experiments():
        raise ConfigError(f"{new.path} holds no experiment. Name a folder that `fresh run` wrote.")
    for name in new.experiments():
        keys, known = (
            {item["key"] for item in runs.read_plan(name)["runs"]} if name in runs.experiments() else set[str]()
            for runs in (new, old)
        )
        if known <= keys or renew:
            copy(new.path / PLANS / f"{name}.json", old.path / PLANS)
        elif not keys <= known:
            raise ConfigError(
                f"{name} in {new.path} lacks {len(known - keys)} of the {plural(len(known), 'run')} in {REPORTS.name}, "
                f"and has {plural(len(keys - known), 'other')}. Plan it from experiments/{name}.toml, or replace the "
                "plan with --renew."
            )
    n_new = n_different = 0
    for file in sorted((new.path / "runs").glob(f"*/{REPORT}")):
        key = file.parent.name
        report, known_report = new.read_report(key), old.read_report(key)
        if report is None:
            continue
        if known_report is None or (renew and known_report != report):
            copy(file, old.run_folder(key))
            n_new += 1
        elif {**known_report, TIMES: {}} != {**report, TIMES: {}}:  # a run that is repeated takes another time
            n_different += 1
    kept = f" Kept although the new ones differ (--renew takes those): {n_different}." if n_different else ""
    return f"Reports added: {n_new}.{kept}"


def copy(file: Path, folder: Path) -> None:
    """Copy a file into a folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder)


def pack(runs: RunStore) -> None:
    """Write runs.tgz; the same reports give the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(runs.path.rglob("*.json")):
            content = path.read_bytes()
            member = tarfile.TarInfo(str(Path("runs") / path.relative_to(runs.path)))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with atomic_write(REPORTS) as partial:
        partial.write_bytes(packed.getvalue())


def unpack(folder: Path) -> RunStore:
    """Unpack runs.tgz into a folder of runs."""
    with tarfile.open(REPORTS) as archive:
        archive.extractall(folder, filter="data")
    return RunStore(folder / "runs")


def fill_pages(runs: RunStore) -> dict[Path, str]:
    """Put the tables of all pages between their marks."""

    def make_table(match: re.Match[str]) -> str:
        name = match[1]
        if name == STANDING:
            table = result_tables.standing(runs)
        else:
            experiment, tabulate = TABLES[name]
            table = tabulate(results_of(runs.path, experiment))
        return f"<!-- {name} -->\n\n{table}\n\n<!-- end -->"

    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    known = [*TABLES, STANDING]
    for page, text in texts.items():
        marks, names = MARK.findall(text), MARKED_TABLE.findall(text)
        if marks != [mark for name in names for mark in (name, "end")]:
            raise ConfigError(f"The marks in {page} are not in pairs: {', '.join(marks)}. Each needs its <!-- end -->.")
        wrong = [suggest(name, "a table", known) for name in names if name not in known]
        if wrong:
            raise ConfigError("\n".join(f"In {page}: {problem}" for problem in wrong))
    return {page: MARKED_TABLE.sub(make_table, text) for page, text in texts.items()}


@functools.cache  # the main experiment is needed for six tables
def results_of(folder: Path, experiment: str) -> list[RunResult]:
    """Read the results of an experiment."""
    return read_results(RunStore(folder), experiment)


def collect_figures(runs: RunStore) -> dict[str, FigureData]:
    """Collect what all figures show."""
    figures: dict[str, FigureData] = {}
    for name, (experiment, options) in FIGURES.items():
        config = read_figure_config(read_grid(EXPERIMENTS / f"{experiment}.toml").figure, options)
        figures[name] = figure_data(results_of(runs.path, experiment), config)
    return figures


def describe_experiments(runs: RunStore, figures: Mapping[str, FigureData]) -> str:
    """Describe data, settings, versions and GPUs of each experiment, and what the figures show, as digests."""
    experiments: dict[str, Any] = {}
    for name in runs.experiments():
        manifest = make_manifest(results_of(runs.path, name))
        seeds = sorted({run["seed"] for run in manifest.pop("each")})
        experiments[name] = {"seeds": seeds, **manifest}
    # Bytes of figures may differ between versions of matplotlib; what they show must not.
    shown = {name: round_numbers(asdict(figure)) for name, figure in figures.items()}
    digests = {name: hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16] for name, content in shown.items()}
    return json.dumps({"experiments": experiments, "figures": digests}, indent=1) + "\n"


def round_numbers(value: Any) -> Any:
    """Round all numbers in lists and dictionaries to nine significant digits; processors differ in the last of 17."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: round_numbers(item) for name, item in value.items()}
    return [round_numbers(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
