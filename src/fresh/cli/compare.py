import argparse
import glob
import sys
from collections import UserDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh.cli import options

if TYPE_CHECKING:
    from fresh.evaluation.comparison import ComparisonReport
    from fresh.rationalizer import Rationalizer

SUMMARY = "Compare models on the same labeled text"
ABOUT = """\
Measure models on the same labeled text and test whether they differ: 95 %
intervals, a paired test of each pair, Holm's correction for the number of
tests, and the overlap of the rationales of each pair.

  fresh compare model-a model-b model-c --data reviews.csv --text review
  fresh compare ours=model-a theirs=model-b --data movies \\
      --data-dir corpora --html compared.html

NAME=PATTERN stands for runs that differ in the seed. Then means over seeds are
compared, by Welch's t-test:

  fresh compare "fresh=runs/fresh-*" "lei=runs/lei-*" --data test.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh compare MODEL MODEL [MODEL ...] --data FILE [options]"
    text = "Folder of a saved model, its name on the Hugging Face Hub, NAME=MODEL, or NAME=PATTERN for several seeds"
    parser.add_argument("models", nargs="+", metavar="MODEL", help=text)
    text = "File with labeled texts, or the name of a corpus, of which the test split is used"
    parser.add_argument("--data", required=True, metavar="FILE", help=text)
    options.add_shared(parser, "--data-dir")
    parser.add_argument("--against", metavar="MODEL", help="Test all others against this one (default: each pair)")
    text = "Write a page with the tables and the documents of the first model"
    parser.add_argument("--html", metavar="FILE", help=text)
    options.add_shared(parser, "--json", "--markdown", "--overwrite", "--device")
    options.add_data_settings(parser, options.LABEL_SETTINGS)


def run(args: argparse.Namespace) -> None:
    from fresh.evaluation.comparison import compare, compare_groups
    from fresh.progress import Terminal

    outputs = {kind: path for kind in ("json", "markdown", "html") if (path := getattr(args, kind)) is not None}
    for kind, path in outputs.items():
        if path == "-":
            raise ValueError(f"--{kind} needs a file: standard output has the tables.")
        if list(outputs.values()).count(path) > 1:
            raise ValueError(f"{path} is named for two outputs. Give each output its own file.")
    options.check_outputs(args, *outputs.values(), source=args.data)
    places = _find_models(args.models)
    against = args.against and _without_slash(args.against)
    groups = {name: _LazyModels({path: path for path in paths}, args.device) for name, paths in places.items()}
    examples = options.read_labeled(args, lambda: (model for models in groups.values() for model in models.values()))
    if all(len(paths) == 1 for paths in places.values()):
        models = _LazyModels({name: path for name, [path] in places.items()}, args.device)
        report = compare(models, examples, Terminal(), against)
    else:
        report = compare_groups(groups, examples, Terminal(), against)
    _show(report)
    texts = {"json": report.to_json, "markdown": report.to_markdown}
    options.write_texts(args, {**texts, "html": lambda: report.to_html(Path(args.data).name)})


class _LazyModels(UserDict[str, Any]):
    """Models by name, each loaded when it is needed, so that memory holds one at a time."""

    def __init__(self, places: Mapping[str, str], device: str) -> None:
        super().__init__(places)
        self.device = device

    def __getitem__(self, name: str) -> "Rationalizer":
        from fresh.rationalizer import Rationalizer

        return Rationalizer.from_pretrained(self.data[name], device=self.device)


def _find_models(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Map the names in the tables to the folders of models."""
    models: dict[str, list[str]] = {}
    owners: dict[Path, str] = {}
    for argument in arguments:
        name, sign, pattern = argument.partition("=")
        if not sign or Path(argument).exists():  # a folder may be called ratio=0.2
            name = pattern = _without_slash(argument)
        elif not name or not pattern:
            raise ValueError(
                f"{argument} has no name or no model. Write NAME=MODEL, or NAME=PATTERN for runs with several seeds."
            )
        if name in models:
            raise ValueError(f"Two models have the name {name}. Give each its own: NAME=MODEL.")
        models[name] = _match_models(argument, pattern)
        for path in models[name]:
            # A model compared with itself would look like a finding.
            owner = owners.setdefault(Path(path).resolve(), argument)
            if owner != argument:
                raise ValueError(f"{path} is in {owner} and in {argument}. Give it once.")
    return models


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


def _match_models(argument: str, pattern: str) -> list[str]:
    """List the saved models that a pattern matches; a pattern without * is one model, here or on the hub."""
    from fresh.evaluation.html_report import report_path
    from fresh.persistence import MANIFEST

    if Path(pattern).exists() or not glob.has_magic(pattern):
        return [pattern]
    matched = sorted(map(_without_slash, glob.glob(pattern)))  # noqa: PTH207  # patterns may be absolute
    models = [path for path in matched if (Path(path) / MANIFEST).is_file()]
    if not models:
        raise ValueError(f"{argument}: {pattern} matches no saved model. Check the folder, or name the models.")
    # `fresh train` puts a report beside each model.
    reports = {str(report_path(Path(path))) for path in models}
    others = [path for path in matched if path not in models and path not in reports]
    if others:
        print(f"{argument}: left out, not saved models: {', '.join(others)}", file=sys.stderr)
    return models


def _show(report: "ComparisonReport") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fresh.highlight import CONTROL_PICTURES

    console = Console()
    for title, header, rows in report.tables():
        table = Table(title=title, title_justify="left", show_lines=True)
        table.add_column(header[0], overflow="fold")  # names are wrapped, figures are not
        for head in header[1:]:
            table.add_column(head, justify="left" if head == "measure" else "right", no_wrap=True)
        for name, *cells in rows:
            # A range stands on a line of its own.
            lines = (name, *(cell.replace(" (", "\n").rstrip(")") for cell in cells))
            table.add_row(*(Text(cell.translate(CONTROL_PICTURES)) for cell in lines))
        console.print(table)
    for note in report.notes:
        console.print(note.translate(CONTROL_PICTURES), highlight=False, markup=False)
