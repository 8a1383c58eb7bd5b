"""`fresh evaluate`."""

import argparse
from pathlib import Path

from fresh.cli.options import READS_LABELS, add_data_dir, add_reading, check_output, read_for

SUMMARY = "measure a model on labelled text"
ABOUT = """\
Measure a model on labelled text: macro-F1, accuracy and the share of words that was read, with 95 % intervals, beside
full text, random words, what was dropped, and the most frequent class; calibration; what less reading costs; and, where
people marked words, how far rationales agree with them.

  fresh evaluate my-model more-reviews.csv --text review --label sentiment
  fresh evaluate my-model more-reviews.csv --text review --label sentiment --html report.html --json report.json
  fresh evaluate my-model movies.tar.gz --eraser results.jsonl          # the test part, with people's own spans
  fresh evaluate my-model movies --data-dir corpora
"""
FILES = {
    "html": "write a page to look at, with the documents (at most 500)",
    "json": "write all figures as JSON",
    "markdown": "write the tables as Markdown",
    "eraser": "write answers and rationales as the scorer of the ERASER benchmark reads them",
}


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh evaluate`."""
    parser.description = ABOUT
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("data", metavar="DATA", help="file with labelled texts, ERASER folder or tar, or a corpus")
    add_data_dir(parser)
    for name, text in FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=text)
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    if whole:
        add_reading(parser, READS_LABELS)


def run(args: argparse.Namespace) -> int:
    """Measure a saved model, show the table, and write what was asked for."""
    from rich.console import Console

    from fresh._io import write_text
    from fresh.evaluation.evaluation import evaluate
    from fresh.evaluation.html_report import write_html_report
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer
    from fresh.reporting.console import show_report

    for name in FILES:
        if getattr(args, name):
            check_output(getattr(args, name), args.data, args.overwrite)
    models: list[Rationalizer] = []

    def load() -> list[Rationalizer]:
        models.append(Rationalizer.from_pretrained(args.model, device=args.device))
        return models

    examples = read_for(args, load)
    [model] = models or load()
    found = evaluate(model, examples, Terminal())
    show_report(Console(), found.report)
    if args.html:
        write_html_report(Path(args.html), model, found, args.model, args.data)
    if args.json:
        write_text(Path(args.json), found.report.to_json())
    if args.markdown:
        write_text(Path(args.markdown), found.report.to_markdown())
    if args.eraser:
        found.write_eraser(Path(args.eraser))
    written = [getattr(args, name) for name in FILES if getattr(args, name)]
    if written:
        print(f"Written: {', '.join(written)}")
    return 0
