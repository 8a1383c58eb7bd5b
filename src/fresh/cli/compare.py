"""`fresh compare`."""

import argparse
import glob
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import READS_LABELS, add_data_dir, add_reading, check_output, read_for

if TYPE_CHECKING:
    from rich.console import Console

    from fresh.evaluation.comparison_report import ComparisonReport
    from fresh.rationalizer import Rationalizer

SUMMARY = "put models side by side on the same labelled text"
ABOUT = """\
Measure models on the same labelled text and test whether they differ: 95 % intervals, a paired test of each pair,
Holm's correction for the number of tests.

  fresh compare model-a model-b model-c --data reviews.csv --text review --label sentiment
  fresh compare ours=model-a theirs=model-b --data movies --data-dir corpora --html compared.html

NAME=PATTERN stands for several runs that differ in the seed; then means over seeds are compared, by Welch's t-test:

  fresh compare "fresh=runs/fresh-*" "lei=runs/lei-*" --data test.jsonl
"""
OUTPUTS = ("json", "markdown", "html")


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh compare`."""
    parser.usage = "fresh compare MODEL MODEL [MODEL ...] --data FILE [options]"
    parser.description = ABOUT
    about = "folder of a saved model, its name on the model hub, NAME=MODEL, or NAME=PATTERN for runs of several seeds"
    parser.add_argument("models", nargs="+", metavar="MODEL", help=about)
    parser.add_argument("--data", required=True, metavar="FILE", help="file with labelled texts, or name of a corpus")
    add_data_dir(parser)
    parser.add_argument("--against", metavar="MODEL", help="test all others against this one, not each pair")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to a file")
    parser.add_argument("--markdown", metavar="FILE", help="also write the tables to a file")
    parser.add_argument("--html", metavar="FILE", help="also write a page, with the documents of the first model")
    parser.add_argument("--overwrite", action="store_true", help="replace output files that are there already")
    if whole:
        add_reading(parser, READS_LABELS)


def run(args: argparse.Namespace) -> int:
    """Measure and test saved models, and show the tables."""
    from rich.console import Console

    from fresh.evaluation.comparison import compare, compare_groups
    from fresh.progress import Terminal

    _check_outputs(args)
    named = _find_models(args.models)
    against = args.against and _tidy(args.against)
    groups = {name: _Saved({place: place for place in places}, args.device) for name, places in named.items()}
    examples = read_for(args, lambda: (model for models in groups.values() for model in models.values()))
    if all(len(places) == 1 for places in named.values()):
        models = _Saved({name: place for name, [place] in named.items()}, args.device)
        table = compare(models, examples, Terminal(), against)
    else:
        table = compare_groups(groups, examples, Terminal(), against)
    _show(Console(), table)
    _write(args, table)
    return 0


class _Saved(Mapping[str, "Rationalizer"]):
    """Models by name, each loaded when it is asked for, so that there is room for one at a time only."""

    def __init__(self, places: Mapping[str, str], device: str) -> None:
        self.places = places
        self.device = device

    def __getitem__(self, name: str) -> "Rationalizer":
        from fresh.rationalizer import Rationalizer

        return Rationalizer.from_pretrained(self.places[name], device=self.device)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before any work is done."""
    named = {kind: getattr(args, kind) for kind in OUTPUTS if getattr(args, kind) is not None}
    for kind, name in named.items():
        if name == "-":
            raise ValueError(f"--{kind} needs a file, not -: the tables go to standard output.")
        if list(named.values()).count(name) > 1:
            raise ValueError(f"{name} is named for two outputs. Give each its own file.")
        check_output(name, args.data, args.overwrite)


def _find_models(given: Sequence[str]) -> dict[str, list[str]]:
    """Find the places of all models, by the names that the tables give them."""
    found: dict[str, list[str]] = {}
    owners: dict[Path, str] = {}
    for item in given:
        name, sign, pattern = item.partition("=")
        if not sign or Path(item).exists():
            name = pattern = _tidy(item)
        elif not name or not pattern:
            raise ValueError(f"{item} lacks a name or a model. Write NAME=MODEL, or NAME=PATTERN for several runs.")
        if name in found:
            raise ValueError(f"The name {name} is given twice. Give each model its own: NAME=MODEL.")
        found[name] = _places_of(item, pattern)
        for place in found[name]:
            if Path(place).resolve() in owners:
                raise ValueError(
                    f"{place} is given twice, in {owners[Path(place).resolve()]} and {item}. Give it once."
                )
            owners[Path(place).resolve()] = item
    return found


def _tidy(place: str) -> str:
    """Leave the slash out that a shell adds to a folder."""
    return place.rstrip("/") or place


def _places_of(item: str, pattern: str) -> list[str]:
    """List the saved models that a pattern matches; what has no * is one model, here or on the hub."""
    from fresh.evaluation.html_report import report_path
    from fresh.persistence import MANIFEST

    if Path(pattern).exists() or not glob.has_magic(pattern):
        return [pattern]
    matched = sorted(map(_tidy, glob.glob(pattern)))  # noqa: PTH207  # patterns may be absolute
    places = [place for place in matched if (Path(place) / MANIFEST).is_file()]
    if not places:
        raise ValueError(f"{item}: no saved model matches {pattern}. Look at the folder, or name the models.")
    pages = {str(report_path(Path(place))) for place in places}
    others = [place for place in matched if place not in places and place not in pages]
    if others:
        print(f"{item}: left out, since these are no saved models: {', '.join(others)}", file=sys.stderr)
    return places


def _show(console: "Console", table: "ComparisonReport") -> None:
    """Print both tables, and how they are to be read."""
    from fresh.evaluation.comparison_report import TEST_HEADER
    from fresh.highlight import CONTROL_PICTURES

    title = "1 document" if table.n_documents == 1 else f"{table.n_documents:,} documents"
    _print_table(console, title, table.header, table.score_cells())
    _print_table(console, "Differences", TEST_HEADER, table.test_cells())
    for line in table.notes:
        console.print(line.translate(CONTROL_PICTURES), highlight=False, markup=False)


def _print_table(console: "Console", title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of figures, whose ranges stand below them; long names are broken, figures never."""
    from rich.table import Table
    from rich.text import Text

    from fresh.highlight import CONTROL_PICTURES

    laid = Table(title=title, title_justify="left", show_lines=True)
    laid.add_column(heads[0], overflow="fold")
    for head in heads[1:]:
        laid.add_column(head, justify="left" if head == "measure" else "right", no_wrap=True)
    for cells in rows:
        laid.add_row(*(Text(cell.translate(CONTROL_PICTURES)) for cell in cells))
    console.print(laid)


def _write(args: argparse.Namespace, table: "ComparisonReport") -> None:
    """Write the files that were asked for, each in one move."""
    from fresh._io import write_text

    made: dict[str, Callable[[], str]] = {
        "json": table.to_json,
        "markdown": table.to_markdown,
        "html": lambda: table.to_html(Path(args.data).name),
    }
    for kind in OUTPUTS:
        name = getattr(args, kind)
        if name is not None:
            write_text(Path(name), made[kind]())
