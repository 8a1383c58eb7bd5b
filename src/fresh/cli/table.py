"""`fresh table`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import check_output
from fresh.config import parse_assignments

if TYPE_CHECKING:
    from fresh.experiments.results import Result
    from fresh.reporting.tables import Table

SUMMARY = "make a table of the runs of an experiment"
ABOUT = """\
Make a table of runs, also while they are being done: mean (min–max) over seeds of a figure in each cell.

  fresh table runs                                              all experiments in a folder of runs
  fresh table runs main --where corpus=sst,movies               some corpora only
  fresh table runs lengths --rows method,scorer --columns corpus,ratio
  fresh table runs main --figure "macro-F1,kept,token F1"       several figures
  fresh table runs main --relative "full text"                  as a share of what another row reaches
  fresh table runs main --format latex --output main.tex        or csv, with all figures in full
  fresh table runs main --manifest main.json                    what stands behind it: data, versions, every run

Does a setting matter? Welch's t-test over seeds wherever two values of it stand against each other and all else is
equal, with Holm's correction for the number of tests:

  fresh table runs global --test discretizer=global_top_k:top_k --test discretizer=global_contiguous:contiguous
  fresh table runs main --test "row=FRESH, attention, top_k:Lei et al., top_k"      rows, on each corpus
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh table`."""
    parser.usage = "fresh table RUNS [EXPERIMENT] [options]"
    parser.description = ABOUT
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of runs, made by `fresh run`")
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="its name (default: all that are there)")
    parser.add_argument("--figure", default="macro-F1", metavar="NAMES", help="what is shown (default: %(default)s)")
    parser.add_argument("--rows", metavar="NAMES", help="settings down (default: rows of the grid, told apart)")
    parser.add_argument("--columns", default="corpus", metavar="NAMES", help="settings across (default: corpus)")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUES", help="only such runs")
    parser.add_argument("--relative", metavar="ROW", help="divide by the mean of this row in the same column")
    parser.add_argument("--test", action="append", metavar="NAME=FIRST:SECOND", help="compare two values of a setting")
    parser.add_argument("--format", choices=("markdown", "csv", "latex"), help="form of the table (default: markdown)")
    parser.add_argument("--output", default="-", metavar="FILE", help="write to a file")
    parser.add_argument("--manifest", metavar="FILE", help="also write what stands behind the table, as JSON")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there already")


def run(args: argparse.Namespace) -> int:
    """Make the table."""
    check_output(args.output, str(args.runs), args.overwrite)
    check_output(args.manifest or "-", str(args.runs), args.overwrite)
    sheet = _make(args)
    if args.manifest:
        _write_manifest(args)
    if args.output == "-" and args.format is None and sys.stdout.isatty():
        show(sheet)
        return 0
    put(sheet, args.format or "markdown", args.output)
    return 0


def _write_manifest(args: argparse.Namespace) -> None:
    """Write down what stands behind the table."""
    import json

    from fresh._io import write_text
    from fresh.experiments.manifest import manifest

    write_text(Path(args.manifest), json.dumps(manifest(_chosen_of(args)), indent=1, ensure_ascii=False) + "\n")


def _chosen_of(args: argparse.Namespace) -> "list[Result]":
    """Read the runs that are asked for."""
    from fresh.experiments.results import read_results, where
    from fresh.experiments.store import RunStore

    results = where(read_results(RunStore(args.runs), args.experiment), parse_assignments(args.where))
    if not results:
        raise ValueError(f"No run has all of: {'; '.join(args.where)}. Ask for less with --where.")
    return results


def _make(args: argparse.Namespace) -> "Table":
    """Read the runs and lay out what is asked for."""
    from fresh.experiments.results import read_results
    from fresh.experiments.significance import read_question, welch_table
    from fresh.experiments.store import RunStore
    from fresh.experiments.tables import pivot, relative

    everything, results = read_results(RunStore(args.runs), args.experiment), _chosen_of(args)
    figures, marked = _listed(args.figure), args.format != "csv"
    if args.test:
        if args.relative or len(figures) > 1:
            raise ValueError("--test compares one figure as it is. Leave out --relative, and name one --figure.")
        return welch_table(results, [read_question(results, text) for text in args.test], figures[0]).sheet(marked)
    table = pivot(results, figures, None if args.rows is None else _listed(args.rows), _listed(args.columns))
    return (relative(table, everything, args.relative) if args.relative else table).sheet(marked)


def _listed(text: str) -> list[str]:
    """Take names apart that are written with commas."""
    return [name.strip() for name in text.split(",")]


def put(sheet: "Table", form: str, output: str) -> None:
    """Write a table in some form; remarks do not go among comma-separated values, but are shown."""
    from fresh._io import write_text

    text = sheet.write(form)
    if output == "-":
        print(text, end="")
    else:
        write_text(Path(output), text)
    if form == "csv":
        print("\n".join(sheet.notes), file=sys.stderr)


def show(sheet: "Table") -> None:
    """Show a table in a terminal: where there is little room, names are broken, and ranges stand below means."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fresh.highlight import CONTROL_PICTURES

    laid = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, head in enumerate(sheet.header):
        is_label = place < sheet.n_labels
        longest = max((len(word) for row in sheet.rows for word in row[place].split()), default=0)
        laid.add_column(
            Text(head.translate(CONTROL_PICTURES)),
            justify="left" if is_label else "right",
            overflow="fold",
            min_width=None if is_label else longest,
        )
    for number, row in enumerate(sheet.rows):
        styles = ("bold" if (number, place) in sheet.best else "" for place in range(len(row)))
        laid.add_row(*(Text(cell.translate(CONTROL_PICTURES), style) for cell, style in zip(row, styles, strict=True)))
    console = Console()
    console.print(laid, crop=False)  # a figure that lacks a digit is a wrong one
    for remark in sheet.notes:
        console.print(remark.translate(CONTROL_PICTURES), highlight=False, markup=False)
