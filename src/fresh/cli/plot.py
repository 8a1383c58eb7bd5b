import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from fresh import experiments
from fresh.cli.options import add_shared, check_outputs
from fresh.config import parse_assignments, suggest
from fresh.errors import ConfigError

SUMMARY = "Draw a figure of the runs of an experiment"
ABOUT = """\
Draw a figure of runs. The [figure] table of the grid file says what it shows;
options override it. Needs the extra `plot`.

  fresh plot runs lengths --output lengths.png lengths.svg
  fresh plot runs lengths --x ratio --by scorer --against "full text" \\
      --output lengths.png
  fresh plot runs lengths --name "ratio=share of words" --name sst=SST \\
      --output lengths.png
  fresh plot runs search --kind scatter --x kept --y macro-F1 \\
      --where method=lei --output trials.png
  fresh plot runs search --kind evp --x seconds --output search.png

lines    a figure against a setting: the mean over seeds, with a band from the
         lowest to the highest
scatter  two figures, with a mark for each run
evp      expected validation performance: the best dev figure of so many trials
         (Dodge et al., 2019); only for searches (rows with `draw` and
         `trials`)

While runs are missing, points without all seeds are hollow, and flat lines
without all seeds have a star in the legend.
"""
_FIGURE_OPTIONS = ("kind", "x", "y", "by", "panels", "against")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh plot RUNS [EXPERIMENT] --output FILE.png [FILE.svg ...] [options]"
    add_shared(parser, "runs", "experiment")
    text = "Files for the figure: .png, .svg or .pdf"
    parser.add_argument("--output", required=True, nargs="+", type=Path, metavar="FILE", help=text)
    parser.add_argument("--kind", choices=("lines", "scatter", "evp"), help="Kind of figure (default: lines)")
    text = "Horizontal axis: a setting; a figure for scatter; trials or seconds for evp"
    parser.add_argument("--x", metavar="NAME", help=text)
    text = "Vertical axis: a figure (default: macro-F1; of dev for evp)"
    parser.add_argument("--y", metavar="NAME", help=text)
    text = "Settings that make lines (default: method, or row)"
    parser.add_argument("--by", metavar="NAMES", help=text)
    parser.add_argument("--panels", metavar="NAME", help="Setting that makes panels (default: corpus)")
    add_shared(parser, "--where")
    text = "Row to draw as a flat line at its mean; can be repeated"
    parser.add_argument("--against", action="append", metavar="ROW", help=text)
    text = "Text for an axis, a panel or a line; can be repeated"
    parser.add_argument("--name", action="append", metavar="NAME=TEXT", help=text)
    add_shared(parser, "--overwrite")


def run(args: argparse.Namespace) -> None:
    from fresh.reporting.figure_style import check_figure_paths

    check_figure_paths(args.output)
    check_outputs(args, *args.output, source=args.runs)
    runs = experiments.RunStore(args.runs)
    options = {name: getattr(args, name) for name in _FIGURE_OPTIONS if getattr(args, name) is not None}
    if args.where:
        options["where"] = parse_assignments(args.where)
    if args.name:
        options["names"] = dict(map(_parse_name, args.name))
    names = [args.experiment] if args.experiment is not None else runs.experiments()
    planned = runs.read_plan(names[0])["figure"] if len(names) == 1 else {}
    config = experiments.read_figure_config(planned, options)
    drawn = experiments.figure_data(experiments.read_results(runs, args.experiment), config)
    # Only now are all axes, panels and lines known.
    _check_names(options.get("names", ()), drawn.all_names)
    experiments.plot_figure(drawn, args.output)
    print(f"Drawn: {', '.join(map(str, args.output))}")
    for remark in drawn.remarks:
        print(remark)


def _parse_name(text: str) -> tuple[str, str]:
    name, _, label = (part.strip() for part in text.partition("="))
    if not name or not label:
        raise ConfigError(f"--name {text!r} must be NAME=TEXT, such as --name 'ratio=share of words'.")
    return name, label


def _check_names(names: Iterable[str], known: Sequence[str]) -> None:
    wrong = [suggest(name, "an axis, a panel or a line of this figure", known) for name in names if name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))
