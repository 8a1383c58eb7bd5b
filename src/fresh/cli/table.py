"""`fresh table`, and how tables are shown."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh import experiments
from fresh._io import write_text
from fresh.cli.options import add_shared, check_outputs
from fresh.config import parse_assignments
from fresh.highlight import CONTROL_PICTURES

if TYPE_CHECKING:
    from fresh.reporting.tables import Table

SUMMARY = "Make a table of the runs of an experiment"
ABOUT = """\
Make a table of runs, also while they are running: the mean (min–max) of a
figure over seeds in each cell.

  fresh table runs                          all experiments in a folder of runs
  fresh table runs main --where corpus=sst,movies              only some corpora
  fresh table runs lengths --rows method,scorer --columns corpus,ratio
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
    parser.add_argument("--figure", default="macro-F1", metavar="NAMES", help="Figures to show (default: %(default)s)")
    parser.add_argument("--rows", metavar="NAMES", help="Settings in rows (default: the rows of the grid)")
    parser.add_argument("--columns", default="corpus", metavar="NAMES", help="Settings in columns (default: corpus)")
    parser.add_argument("--relative", metavar="ROW", help="Divide by the mean of this row in the same column")
    text = "Compare two values of a setting by Welch's t-test; can be repeated"
    parser.add_argument("--test", action="append", metavar="NAME=FIRST:SECOND", help=text)
    parser.add_argument("--format", choices=("markdown", "csv", "latex"), help="Format (default: markdown)")
    parser.add_argument("--manifest", metavar="FILE", help="Also write the sources of the table, as JSON")
    add_shared(parser, "--where", "--output", "--overwrite")


def run(args: argparse.Namespace) -> None:
    check_outputs(args, args.output, args.manifest, source=args.runs)
    everything = experiments.read_results(experiments.RunStore(args.runs), args.experiment)
    results = experiments.select(everything, parse_assignments(args.where or ()))
    if not results:
        raise ValueError(f"No run matches: {'; '.join(args.where)}. Change --where.")
    figures, marked = _split_names(args.figure), args.format != "csv"
    if args.test:
        if args.relative or len(figures) > 1:
            raise ValueError("--test compares one figure: leave --relative out, and name one --figure.")
        contrasts = [experiments.parse_contrast(results, text) for text in args.test]
        table = experiments.welch_table(results, contrasts, figures[0]).to_table(marked)
    else:
        rows = None if args.rows is None else _split_names(args.rows)
        pivot = experiments.pivot(results, figures, rows, _split_names(args.columns))
        pivot = experiments.divide_by_row(pivot, everything, args.relative) if args.relative else pivot
        table = pivot.to_table(marked)
    if args.manifest:
        content = json.dumps(experiments.make_manifest(results), indent=1, ensure_ascii=False)
        write_text(Path(args.manifest), content + "\n")
    show_table(table, args.format, args.output)


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
        longest = max((len(word) for row in table.rows for word in row[column].split()), default=0)
        layout: dict[str, Any] = {"justify": "right", "min_width": longest} if column >= table.n_labels else {}
        shown.add_column(Text(head.translate(CONTROL_PICTURES)), overflow="fold", **layout)
    for number, row in enumerate(table.rows):
        styles = ["bold" if (number, column) in table.best else "" for column in range(len(row))]
        shown.add_row(*(Text(cell.translate(CONTROL_PICTURES), style) for cell, style in zip(row, styles, strict=True)))
    console = Console()
    console.print(shown, crop=False)  # cropping would cut digits off figures
    for note in table.notes:
        console.print(note.translate(CONTROL_PICTURES), highlight=False, markup=False)
