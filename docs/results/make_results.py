"""Make every table, figure and list of the result pages from reports of runs.

python docs/results/make_results.py             from runs.tgz
python docs/results/make_results.py RUNS        from runs.tgz, after the reports of a folder of runs were added to it
python docs/results/make_results.py --check     say whether the pages are what runs.tgz gives, and change nothing

Tables stand between marks, <!-- NAME --> and <!-- end -->, in main.md, in README.md beside it and on the front page;
what is written around them is not touched.
"""

import argparse
import gzip
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tables

from fresh.experiment.curves import drawing
from fresh.experiment.figure_config import read_figure
from fresh.experiment.folder import PLAN, REPORT, Runs
from fresh.experiment.grid_file import read_grid
from fresh.experiment.manifest import manifest
from fresh.experiment.plot import plot
from fresh.experiment.results import read_results
from fresh.whole_file import write_text, written_whole

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
REPORTS, MANIFEST = HERE / "runs.tgz", HERE / "manifest.json"
PAGES = (HERE / "main.md", HERE / "README.md", HERE.parents[1] / "README.md")
MADE = re.compile(r"<!-- (?!end)([a-z ]+) -->\n.*?<!-- end -->", re.DOTALL)
TABLES = {
    "main table": ("main", tables.side_by_side),
    "goals": ("main", tables.goals),
    "shares": ("main", tables.shares),
    "card time": ("main", tables.card_time),
    "headline": ("main", tables.headline),
    "base size": ("mpnet", tables.side_by_side),
    "lengths": ("lengths", tables.shorter),
    "human": ("human", tables.human),
    "global": ("global", tables.one_for_all),
}
FIGURES: dict[str, tuple[str, Mapping[str, str]]] = {
    "lengths": ("lengths", {}),
    "human": ("human", {}),
    "search": ("search", {}),
    "search-lengths": ("search", {"kind": "scatter", "x": "kept by gate", "y": "dev macro-F1"}),
}
SUFFIXES = ("png", "svg")


def main() -> None:
    """Make all, or say what is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, help="a folder of runs (default: what runs.tgz holds)")
    parser.add_argument("--check", action="store_true", help="change nothing, end with 1 if a page is out of date")
    args = parser.parse_args()
    if args.runs is not None and not args.check:
        add(args.runs)
    with tempfile.TemporaryDirectory() as folder:
        runs = unpacked(Path(folder))
        texts = {page: filled(page, runs) for page in PAGES} | {MANIFEST: manifests(runs)}
        old = [page for page, text in texts.items() if page.read_text(encoding="utf-8") != text]
        if args.check:
            names = ", ".join(str(page.relative_to(HERE.parents[1])) for page in old)
            sys.exit(f"Not what runs.tgz gives: {names}. Make them again: make results." if old else 0)
        for page in old:
            write_text(page, texts[page])
        draw(runs)


def add(folder: Path) -> None:
    """Add the plans and reports of a folder of runs to runs.tgz.

    What is there stays, and so does a plan that has all runs of the new one: that was made for a part of the grid.
    """
    new = Runs(folder)
    with tempfile.TemporaryDirectory() as place:
        old = unpacked(Path(place))
        for name in new.plans():
            if name not in old.plans() or not keys_of(new, name) <= keys_of(old, name):
                copy(new.path / PLAN / f"{name}.json", old.path / PLAN)
        for report in (new.path / "runs").glob(f"*/{REPORT}"):
            copy(report, old.of(report.parent.name))
        pack(old)


def keys_of(runs: Runs, name: str) -> set[str]:
    """List the runs of an experiment."""
    return {item["key"] for item in runs.plan(name)["runs"]}


def copy(file: Path, folder: Path) -> None:
    """Copy a file into a folder, which may not be there."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, folder)


def pack(runs: Runs) -> None:
    """Write runs.tgz; the same reports give the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(runs.path.rglob("*.json")):
            content = path.read_bytes()
            member = tarfile.TarInfo(str(Path("runs") / path.relative_to(runs.path)))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with written_whole(REPORTS) as place:
        place.write_bytes(packed.getvalue())


def unpacked(folder: Path) -> Runs:
    """Lay out what runs.tgz holds as `fresh run` does."""
    with tarfile.open(REPORTS) as archive:
        archive.extractall(folder, filter="data")
    return Runs(folder / "runs")


def filled(page: Path, runs: Runs) -> str:
    """Put the tables of a page in their places."""

    def made(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n\n{table(found[1], runs)}\n\n<!-- end -->"

    return MADE.sub(made, page.read_text(encoding="utf-8"))


def table(name: str, runs: Runs) -> str:
    """Make a table by its name."""
    if name == "standing":
        return tables.standing(runs)
    experiment, make = TABLES[name]
    return make(read_results(runs, experiment))


def manifests(runs: Runs) -> str:
    """Say what stands behind each experiment: data, settings, versions, cards; not each single run."""
    told: dict[str, Any] = {}
    for name in runs.plans():
        about = manifest(read_results(runs, name))
        seeds = sorted({run["seed"] for run in about.pop("each")})
        told[name] = {"seeds": seeds, **about}
    return json.dumps(told, indent=1) + "\n"


def draw(runs: Runs) -> None:
    """Draw all figures."""
    for name, (experiment, options) in FIGURES.items():
        config = read_figure(read_grid(EXPERIMENTS / f"{experiment}.toml").figure, options)
        plot(drawing(read_results(runs, experiment), config), [HERE / f"{name}.{suffix}" for suffix in SUFFIXES])


if __name__ == "__main__":
    main()
