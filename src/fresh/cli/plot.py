import argparse
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
  fresh plot runs lengths --name "ratio=share of words" --name sst=SST \\
      --output lengths.png
  fresh plot runs search --kind evp --x seconds --output search.png

Kinds: lines (a figure against a setting: the mean over seeds, with a band from
the lowest to the highest), scatter (two figures, with a mark for each run), and
evp (expected validation performance, for searches: the best dev figure of so
many trials; Dodge et al., 2019).

While runs are missing, points without all seeds are hollow, and flat lines
without all seeds have a star in the legend.
"""
_FIGURE_OPTIONS = ("kind", "x", "y", "by", "panels", "against")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh plot RUNS [EXPERIMENT] --output FILE.png [FILE.svg ...] [options]"
    add_shared(parser, "runs", "experiment")
    parser.add_argument("--output", required=True, nargs="+", type=Path, metavar="FILE", help="As .png, .svg or .pdf")
    parser.add_argument("--kind", choices=("lines", "scatter", "evp"), help="Kind of figure (default: lines)")
    text = "Horizontal axis: a setting; a figure for scatter; trials or seconds for evp"
    parser.add_argument("--x", metavar="NAME", help=text)
    parser.add_argument("--y", metavar="NAME", help="Vertical axis: a figure (default: macro-F1; of dev for evp)")
    parser.add_argument("--by", metavar="NAMES", help="Settings that make lines (default: method, or row)")
    parser.add_argument("--panels", metavar="NAME", help="Setting that makes panels (default: corpus)")
    parser.add_argument("--against", action="append", metavar="ROW", help="Row to draw as a flat line; can be repeated")
    parser.add_argument("--name", action="append", metavar="NAME=TEXT", help="Text to show for a name; can be repeated")
    add_shared(parser, "--where", "--overwrite")


def run(args: argparse.Namespace) -> None:
    from fresh.reporting.figure_style import check_figure_paths

    check_figure_paths(args.output)
    check_outputs(args, *args.output, source=args.runs)
    names: dict[str, str] = {}
    for text in args.name or ():
        name, _, label = (part.strip() for part in text.partition("="))
        if not name or not label:
            raise ConfigError(f"--name {text!r} must be NAME=TEXT, such as --name 'ratio=share of words'.")
        names[name] = label
    options = {name: getattr(args, name) for name in _FIGURE_OPTIONS if getattr(args, name) is not None}
    options |= {"where": parse_assignments(args.where)} if args.where else {}
    options |= {"names": names} if names else {}
    runs = experiments.RunStore(args.runs)
    planned = [args.experiment] if args.experiment is not None else runs.experiments()
    figure = runs.read_plan(planned[0])["figure"] if len(planned) == 1 else {}
    config = experiments.read_figure_config(figure, options)
    drawn = experiments.figure_data(experiments.read_results(runs, args.experiment), config)
    # Only now are all axes, panels and lines known.
    known, what = drawn.all_names, "an axis, a panel or a line of this figure"
    wrong = [suggest(name, what, known) for name in names if name not in known]
    if wrong:
        raise ConfigError("\n".join(wrong))
    experiments.plot_figure(drawn, args.output)
    print(f"Drawn: {', '.join(map(str, args.output))}")
    for remark in drawn.remarks:
        print(remark)
