"""`fresh evaluate`."""

import argparse
from pathlib import Path

from fresh.commands.options import READS_LABELS, add_reading, load

SUMMARY = "measure a model on labelled text"
ABOUT = """\
Measure a model on labelled text: macro-F1, accuracy and the share of words that was read, beside full text and random
words.

  fresh evaluate my-model more-reviews.csv --text review --label sentiment --json report.json
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh evaluate`."""
    parser.description = ABOUT
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("data", metavar="DATA", help="file with labelled texts")
    parser.add_argument("--json", metavar="FILE", help="also write the report to a file")
    if whole:
        add_reading(parser, READS_LABELS)


def run(args: argparse.Namespace) -> int:
    """Measure a saved model and show the table."""
    from rich.console import Console

    from fresh.evaluate import evaluate
    from fresh.progress import Terminal
    from fresh.show import show_report

    if args.json and not Path(args.json).parent.is_dir():
        raise ValueError(f"There is no folder {Path(args.json).parent} to write the report to. Make it first.")
    [model], examples = load(args, [args.model])
    report = evaluate(model, examples, Terminal())
    show_report(Console(), report)
    if args.json:
        partial = Path(f"{args.json}.partial")
        partial.write_text(report.to_json(), encoding="utf-8")
        partial.replace(args.json)
    return 0
