"""`fresh evaluate`."""

import argparse
from pathlib import Path

from fresh.cli import options

SUMMARY = "Measure a model on labeled text"
ABOUT = """\
Measure a model on labeled text: macro-F1, accuracy and the share of words that
were read, with 95 % intervals, next to full text, random words, the unread
words and the most frequent class. The report also shows calibration, shorter
rationales, and the agreement with human rationales, if the data has any.

  fresh evaluate my-model more.csv --text review --label sentiment
  fresh evaluate my-model more.csv --html report.html --json report.json
  fresh evaluate my-model movies.tar.gz --eraser results.jsonl
  fresh evaluate my-model movies --data-dir corpora
"""
_FILES = {
    "html": "Write a page with the figures and up to 500 documents",
    "json": "Write all figures as JSON",
    "markdown": "Write the tables as Markdown",
    "eraser": "Write labels and rationales for the scorer of the ERASER benchmark",
}


def add_arguments(parser: argparse.ArgumentParser, with_settings: bool) -> None:
    """Describe `fresh evaluate`."""
    parser.description = ABOUT
    options.add_model(parser)
    text = "File with labeled texts, ERASER folder or tar, or the name of a corpus; test splits are used alone"
    parser.add_argument("data", metavar="DATA", help=text)
    options.add_data_dir(parser)
    for name, text in _FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=text)
    options.add_overwrite(parser)
    options.add_device(parser)
    if with_settings:
        options.add_data_settings(parser, options.LABEL_SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Measure a saved model, show the report, and write the files."""
    from rich.console import Console

    from fresh._io import write_text
    from fresh.evaluation.evaluation import evaluate
    from fresh.evaluation.html_report import write_html_report
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer
    from fresh.reporting.console import show_report

    written = [getattr(args, name) for name in _FILES if getattr(args, name)]
    for path in written:
        options.check_output(path, args.data, args.overwrite)
    models: list[Rationalizer] = []

    def load() -> list[Rationalizer]:
        models.append(Rationalizer.from_pretrained(args.model, device=args.device))
        return models

    examples = options.read_labeled(args, load)
    [model] = models or load()
    evaluation = evaluate(model, examples, Terminal())
    show_report(Console(), evaluation.report)
    if args.html:
        write_html_report(Path(args.html), model, evaluation, args.model, args.data)
    if args.json:
        write_text(Path(args.json), evaluation.report.to_json())
    if args.markdown:
        write_text(Path(args.markdown), evaluation.report.to_markdown())
    if args.eraser:
        evaluation.write_eraser(Path(args.eraser))
    if written:
        print(f"Written: {', '.join(written)}")
    return 0
