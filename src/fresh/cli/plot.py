"""`fresh plot`."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from fresh.cli.options import check_output
from fresh.config import parse_assignments, suggest
from fresh.errors import ConfigError

SUMMARY = "draw a figure of the runs of an experiment"
ABOUT = """\
Draw a figure of runs. What it shows is said by [figure] in the grid file, or here. Needs the extra `plot`.

  fresh plot runs lengths --output lengths.png lengths.svg
  fresh plot runs lengths --x ratio --by scorer --against "full text" --output lengths.png
  fresh plot runs lengths --name "ratio=share of words that is kept" --name sst=SST --output lengths.png
  fresh plot runs search --kind scatter --x kept --y macro-F1 --where method=lei --output trials.png
  fresh plot runs search --kind evp --x seconds --against "FRESH, attention" --output search.png

lines     a figure over a setting, mean over seeds, with a band from the lowest to the highest
scatter   two figures, a mark for each run
evp       expected validation performance: how good the best of so many trials is on dev (Dodge et al., 2019);
          only for searches: rows with `draw` and `trials`; over seconds, a row that it is held against begins at
          the time that one of its runs takes

Before all runs are done, points that lack a seed are hollow, and names of flat lines that do have a star in the legend.
"""
NAMES = ("kind", "x", "y", "by", "panels", "against")


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh plot`."""
    parser.usage = "fresh plot RUNS [EXPERIMENT] --output FILE.png [FILE.svg ...] [options]"
    parser.description = ABOUT
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of runs, made by `fresh run`")
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="its name (default: all that are there)")
    parser.add_argument("--output", required=True, nargs="+", type=Path, metavar="FILE", help=".png, .svg or .pdf")
    parser.add_argument("--kind", choices=("lines", "scatter", "evp"), help="what kind of figure (default: lines)")
    parser.add_argument(
        "--x", metavar="NAME", help="across: a setting, a figure for scatter, trials or seconds for evp"
    )
    parser.add_argument("--y", metavar="NAME", help="up: a figure (default: macro-F1; of dev for evp)")
    parser.add_argument("--by", metavar="NAMES", help="settings that tell lines apart (default: method, or row)")
    parser.add_argument("--panels", metavar="NAME", help="setting that tells panels apart (default: corpus)")
    parser.add_argument("--where", action="append", metavar="NAME=VALUES", help="only such runs")
    parser.add_argument("--against", action="append", metavar="ROW", help="a flat line at the mean of this row")
    parser.add_argument(
        "--name", action="append", metavar="NAME=TEXT", help="what to write for an axis, a panel or a line"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")


def run(args: argparse.Namespace) -> int:
    """Draw the figure, and say what it may lack."""
    from fresh.experiments.curves import drawing
    from fresh.experiments.figure_config import read_figure
    from fresh.experiments.plot import plot
    from fresh.experiments.results import read_results
    from fresh.experiments.store import RunStore
    from fresh.reporting.figure_style import check_figure_paths

    check_figure_paths(args.output)
    for place in args.output:
        check_output(str(place), str(args.runs), args.overwrite)
    runs = RunStore(args.runs)
    options = {name: getattr(args, name) for name in NAMES if getattr(args, name) is not None}
    if args.where:
        options["where"] = parse_assignments(args.where)
    if args.name:
        options["names"] = dict(map(_read_name, args.name))
    names = [args.experiment] if args.experiment is not None else runs.plans()
    given = runs.plan(names[0])["figure"] if len(names) == 1 else {}
    found = drawing(read_results(runs, args.experiment), read_figure(given, options))
    _check_named(options.get("names", ()), found.all_names)
    plot(found, args.output)
    print(f"Drawn: {', '.join(map(str, args.output))}")
    for remark in found.remarks:
        print(remark)
    return 0


def _read_name(given: str) -> tuple[str, str]:
    """Read what is to be written for a name."""
    name, _, text = (part.strip() for part in given.partition("="))
    if not name or not text:
        raise ConfigError(f"--name {given!r} must be a name and a text, as in --name 'ratio=share of words'.")
    return name, text


def _check_named(names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse another name for what the figure does not have."""
    wrong = [suggest(name, "an axis, a panel or a line of this figure", known) for name in names if name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))
