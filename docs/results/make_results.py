"""Make the tables and figures of main.md, and the table of the front page, from reports of runs.

python docs/results/make_results.py                   from runs.tgz
python docs/results/make_results.py RUNS              the same, after what RUNS has and runs.tgz has not was added to it
python docs/results/make_results.py RUNS --renew      what both have is taken from RUNS, too: plans and reports
python docs/results/make_results.py --check           say whether all is as runs.tgz gives it, and change nothing

Tables stand between marks, <!-- NAME --> and <!-- end -->; what is written around them is not touched.
"""

import argparse
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

import result_tables
import result_times

from fresh._io import atomic_write, write_text
from fresh.config import suggest
from fresh.errors import ConfigError
from fresh.experiments.figures import FigureData, figure_data, read_figure_config
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plot import plot_figure
from fresh.experiments.results import make_manifest, read_results
from fresh.experiments.store import PLANS, REPORT, TIMES, RunStore, check_folder

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
REPORTS, MANIFEST = HERE / "runs.tgz", HERE / "manifest.json"
PAGES = (HERE / "main.md", HERE / "README.md", HERE.parents[1] / "README.md")
MARK = re.compile(r"<!-- (.*?) -->")
MADE = re.compile(r"<!-- ([^>]*?) -->\n(?:(?!<!-- ).*\n)*<!-- end -->")
"""A mark, lines without one, and the mark of the end."""
TABLES = {
    "main table": ("main", result_tables.side_by_side),
    "goals": ("main", result_tables.goals),
    "shares": ("main", result_tables.shares),
    "spreads": ("main", result_tables.spreads),
    "card time": ("main", result_times.card_time),
    "headline": ("main", result_tables.headline),
    "base size": ("mpnet", result_tables.side_by_side),
    "lengths": ("lengths", result_tables.shorter),
    "human": ("human", result_tables.human),
    "global": ("global", result_tables.one_for_all),
}
STANDING = "standing"
FIGURES: dict[str, tuple[str, Mapping[str, str]]] = {
    "lengths": ("lengths", {}),
    "human": ("human", {}),
    "search": ("search", {}),
    "search-lengths": ("search", {"kind": "scatter", "x": "kept by gate", "y": "dev macro-F1"}),
}
SUFFIXES = ("png", "svg")


def main() -> None:
    """Write everything, or say what is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, help="a folder of runs whose reports are added")
    parser.add_argument("--renew", action="store_true", help="take plans and reports from there that are here already")
    parser.add_argument("--check", action="store_true", help="change nothing, end with 1 if a page is out of date")
    args = parser.parse_args()
    if args.check and args.runs is not None:
        parser.error("--check is for what is here. Leave the folder out.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            runs = unpacked(Path(folder))
            if args.runs is not None:
                print(add(RunStore(args.runs), runs, args.renew))
            problem = make(runs, args.check, args.runs is not None)
    except ConfigError as error:
        sys.exit(str(error))
    sys.exit(problem)


def make(runs: RunStore, check: bool, changed: bool) -> str | None:
    """Write everything that is out of date, or only say what is.

    :param changed: Whether to write runs.tgz again.
    """
    drawn = drawings(runs)
    texts = {**filled(runs), MANIFEST: manifests(runs, drawn)}
    old = [page for page, text in texts.items() if not page.exists() or page.read_text(encoding="utf-8") != text]
    missing = [place for name in drawn for place in places(name) if not place.exists()]
    if check:
        names = ", ".join(str(page.relative_to(HERE.parents[1])) for page in (*old, *missing))
        return f"Not what runs.tgz gives: {names}. Make them again: make results." if names else None
    if changed:
        pack(runs)
    for page in old:
        write_text(page, texts[page])
    for name, drawn_one in drawn.items():
        plot_figure(drawn_one, places(name))
    return None


def add(new: RunStore, old: RunStore, renew: bool) -> str:
    """Add plans and reports of a folder of runs, and say what was done.

    A plan without some of the runs of the one that is here is of a part of the grid, and is left out.
    """
    check_folder(new.path)
    if not new.experiments():
        raise ConfigError(f"{new.path} holds no experiment. Name a folder that `fresh run` wrote.")
    for name in new.experiments():
        take_plan(name, new, old, renew)
    n_new = n_there = 0
    for place in sorted((new.path / "runs").glob(f"*/{REPORT}")):
        key = place.parent.name
        report = new.read_report(key)
        known = old.read_report(key)
        if report is None:
            continue
        if known is None or (renew and known != report):
            copy(place, old.run_folder(key))
            n_new += 1
        elif {**known, TIMES: {}} != {**report, TIMES: {}}:
            n_there += 1
    left = (
        f" {n_there} that are here with other figures stay as they are (--renew takes the new ones)." if n_there else ""
    )
    return f"Reports added: {n_new}.{left}"


def take_plan(name: str, new: RunStore, old: RunStore, renew: bool) -> None:
    """Copy the plan of an experiment, unless it is of a part of the grid."""
    keys, known = keys_of(new, name), keys_of(old, name) if name in old.experiments() else set[str]()
    if known <= keys or renew:
        copy(new.path / PLANS / f"{name}.json", old.path / PLANS)
    elif not keys <= known:
        raise ConfigError(
            f"{name} in {new.path} lacks {len(known - keys)} of the {len(known)} runs that it has in {REPORTS.name}, "
            f"and has {len(keys - known)} others. Plan it there as it is in experiments/{name}.toml, or take it as it "
            "is with --renew."
        )


def keys_of(runs: RunStore, name: str) -> set[str]:
    """List the runs of an experiment."""
    return {item["key"] for item in runs.read_plan(name)["runs"]}


def copy(file: Path, folder: Path) -> None:
    """Copy a file into a folder, which is created if it is missing."""
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
    with atomic_write(REPORTS) as place:
        place.write_bytes(packed.getvalue())


def unpacked(folder: Path) -> RunStore:
    """Unpack runs.tgz into a folder of runs."""
    with tarfile.open(REPORTS) as archive:
        archive.extractall(folder, filter="data")
    return RunStore(folder / "runs")


def filled(runs: RunStore) -> dict[Path, str]:
    """Fill in the tables of all pages."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    wanted = [*TABLES, STANDING]
    for page, text in texts.items():
        marks, made = MARK.findall(text), MADE.findall(text)
        if marks != [mark for name in made for mark in (name, "end")]:
            raise ConfigError(f"The marks in {page} are not in pairs: {', '.join(marks)}. Each needs its <!-- end -->.")
        wrong = [suggest(name, "a table", wanted) for name in made if name not in wanted]
        if wrong:
            raise ConfigError("\n".join(f"In {page}: {problem}" for problem in wrong))
    return {page: MADE.sub(lambda found: put(found[1], runs), text) for page, text in texts.items()}


def put(name: str, runs: RunStore) -> str:
    """Make a table by its name, between its marks."""
    if name == STANDING:
        table = result_tables.standing(runs)
    else:
        experiment, make_one = TABLES[name]
        table = make_one(read_results(runs, experiment))
    return f"<!-- {name} -->\n\n{table}\n\n<!-- end -->"


def drawings(runs: RunStore) -> dict[str, FigureData]:
    """Compute the data of all figures."""
    found: dict[str, FigureData] = {}
    for name, (experiment, options) in FIGURES.items():
        config = read_figure_config(read_grid(EXPERIMENTS / f"{experiment}.toml").figure, options)
        found[name] = figure_data(read_results(runs, experiment), config)
    return found


def places(name: str) -> list[Path]:
    """Return the files of a figure."""
    return [HERE / f"{name}.{suffix}" for suffix in SUFFIXES]


def manifests(runs: RunStore, drawn: Mapping[str, FigureData]) -> str:
    """Describe each experiment, not each run: data, settings, versions, GPUs; and the digests of the figures.

    The digest of a figure is of its data: the bytes of its files may differ from one matplotlib to another.
    """
    experiments: dict[str, Any] = {}
    for name in runs.experiments():
        about = make_manifest(read_results(runs, name))
        seeds = sorted({run["seed"] for run in about.pop("each")})
        experiments[name] = {"seeds": seeds, **about}
    digests = {name: digest(data) for name, data in drawn.items()}
    return json.dumps({"experiments": experiments, "figures": digests}, indent=1) + "\n"


def digest(drawn: FigureData) -> str:
    """Compute a digest of what a figure shows that is the same on every processor."""
    return hashlib.sha256(json.dumps(rounded(asdict(drawn))).encode()).hexdigest()[:16]


def rounded(value: Any) -> Any:
    """Round all numbers in lists and dictionaries to nine significant digits; processors differ in the last of 17."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
