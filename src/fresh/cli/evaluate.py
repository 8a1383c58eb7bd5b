import argparse
import functools
from pathlib import Path

from fresh.cli import options

SUMMARY = "Measure a model on labeled text"
ABOUT = """\
Measure a model on labeled text: macro-F1, accuracy and the share of words that
were read, with 95 % intervals, next to full text, the model's independent
reader, random words, the unread words and the most frequent class. The report
also shows calibration, shorter rationales, and the agreement with human
rationales, if the data has any.

  fresh evaluate my-model more.csv --text review --label sentiment
  fresh evaluate my-model more.csv --html report.html --json report.json
  fresh evaluate my-model movies --data-dir corpora
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_shared(parser, "model")
    text = "File with labeled texts, ERASER folder or tar, or the name of a corpus; test splits are used alone"
    parser.add_argument("data", metavar="DATA", help=text)
    options.add_shared(parser, "--data-dir")
    parser.add_argument("--html", metavar="FILE", help="Write a page with the figures and up to 500 documents")
    text = "Write labels and rationales for the scorer of the ERASER benchmark"
    parser.add_argument("--eraser", metavar="FILE", help=text)
    options.add_shared(parser, "--reader", "--json", "--markdown", "--overwrite", "--device")
    options.add_data_settings(parser, options.LABEL_SETTINGS)


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from fresh.evaluation.baselines import Baselines
    from fresh.evaluation.evaluation import evaluate
    from fresh.evaluation.html_report import write_html_report
    from fresh.progress import Terminal
    from fresh.reporting.console import show_report

    written = [path for path in (args.html, args.json, args.markdown, args.eraser) if path]
    options.check_outputs(args, *written, source=args.data)
    load = functools.cache(lambda: options.load_model(args))
    examples = options.read_labeled(args, lambda: [load()])  # before the model, which takes longer to load
    baselines = Baselines(independent=options.load_reader(args, load()))
    evaluation = evaluate(load(), examples, Terminal(), baselines)
    show_report(Console(), evaluation.report)
    if args.html:
        write_html_report(Path(args.html), load(), evaluation, args.model, args.data)
    options.write_texts(args, {"json": evaluation.report.to_json, "markdown": evaluation.report.to_markdown})
    if args.eraser:
        evaluation.write_eraser(Path(args.eraser))
    if written:
        print(f"Written: {', '.join(written)}")
