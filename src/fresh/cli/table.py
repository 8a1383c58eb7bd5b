"""`fresh table`, and how tables are shown."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fresh import experiments
from fresh._io import write_text
from fresh.cli.options import add_shared, check_outputs
from fresh.config import parse_assignments
from fresh.highlight import CONTROL_PICTURES

if TYPE_CHECKING:
    from fresh.experiments.results import RunResult
    from fresh.reporting.tables import Table

SUMMARY = "Make a table of the runs of an experiment"
ABOUT = """\
Make a table of runs, also while they are running: the mean (min–max) of a
figure over seeds in each cell.

  fresh table runs                          all experiments in a folder of runs
  fresh table runs main --where corpus=sst,movies              only some corpora
  fresh table runs lengths --rows method,scorer --columns corpus,ratio
  fresh table runs main --figure "macro-F1,kept,token F1"        several figures
  fresh table runs main --relative "full text"     as a share of another row
  fresh table runs main --format latex --output main.tex
  fresh table runs main --manifest main.json     with data, versions, every run

Does a setting matter? Compare two of its values by Welch's t-test over seeds,
wherever all else is equal, with Holm's correction for the number of tests:

  fresh table runs global --test discretizer=global_top_k:top_k
  fresh table runs main --test "row=FRESH, attention, top_k:Lei et al., top_k"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh table RUNS [EXPERIMENT] [options]"
    add_shared(parser, "runs", "experiment")
    text = "Figures to show, separated by commas (default: %(default)s)"
    parser.add_argument("--figure", default="macro-F1", metavar="NAMES", help=text)
    text = "Settings that make rows (default: the rows of the grid)"
    parser.add_argument("--rows", metavar="NAMES", help=text)
    text = "Settings that make columns (default: corpus)"
    parser.add_argument("--columns", default="corpus", metavar="NAMES", help=text)
    add_shared(parser, "--where")
    parser.add_argument("--relative", metavar="ROW", help="Divide by the mean of this row in the same column")
    text = "Compare two values of a setting; can be repeated"
    parser.add_argument("--test", action="append", metavar="NAME=FIRST:SECOND", help=text)
    text = "Format of the table (default: markdown)"
    parser.add_argument("--format", choices=("markdown", "csv", "latex"), help=text)
    parser.add_argument("--output", default="-", metavar="FILE", help="Write to a file")
    parser.add_argument("--manifest", metavar="FILE", help="Also write the sources of the table, as JSON")
    add_shared(parser, "--overwrite")


def run(args: argparse.Namespace) -> None:
    check_outputs(args, args.output, args.manifest, source=args.runs)
    everything = experiments.read_results(experiments.RunStore(args.runs), args.experiment)
    results = experiments.select(everything, parse_assignments(args.where or ()))
    if not results:
        raise ValueError(f"No run matches: {'; '.join(args.where)}. Change --where.")
    table = _make_table(args, everything, results)
    if args.manifest:
        content = json.dumps(experiments.make_manifest(results), indent=1, ensure_ascii=False)
        write_text(Path(args.manifest), content + "\n")
    show_table(table, args.format, args.output)


def _make_table(args: argparse.Namespace, everything: "list[RunResult]", results: "list[RunResult]") -> "Table":
    figures, marked = _split_names(args.figure), args.format != "csv"
    if args.test:
        if args.relative or len(figures) > 1:
            raise ValueError("--test compares one figure: leave --relative out, and name one --figure.")
        contrasts = [experiments.parse_contrast(results, text) for text in args.test]
        return experiments.welch_table(results, contrasts, figures[0]).to_table(marked)
    rows = None if args.rows is None else _split_names(args.rows)
    table = experiments.pivot(results, figures, rows, _split_names(args.columns))
    if args.relative:
        table = experiments.divide_by_row(table, everything, args.relative)
    return table.to_table(marked)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def show_table(table: "Table", form: str | None, output: str) -> None:
    """Write a table to a file or standard output, by default as Markdown, or laid out for the terminal.

    The notes of a CSV table go to standard error.
    """
    if output == "-" and form is None and sys.stdout.isatty():
        _print_table(table)
        return
    text = table.write(form or "markdown")
    if output == "-":
        print(text, end="")
    else:
        write_text(Path(output), text)
    if form == "csv":
        print("\n".join(table.notes), file=sys.stderr)


def _print_table(table: "Table") -> None:
    """Show a table in the terminal; in narrow ones, labels are wrapped and ranges go below means."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column, head in enumerate(table.header):
        is_label = column < table.n_labels
        longest = max((len(word) for row in table.rows for word in row[column].split()), default=0)
        shown.add_column(
            Text(head.translate(CONTROL_PICTURES)),
            justify="left" if is_label else "right",
            overflow="fold",
            min_width=None if is_label else longest,
        )
    for number, row in enumerate(table.rows):
        styles = ("bold" if (number, column) in table.best else "" for column in range(len(row)))
        cells = zip(row, styles, strict=True)
        shown.add_row(*(Text(cell.translate(CONTROL_PICTURES), style) for cell, style in cells))
    console = Console()
    console.print(shown, crop=False)  # cropping would cut digits off figures
    for note in table.notes:
        console.print(note.translate(CONTROL_PICTURES), highlight=False, markup=False)
