import argparse
import shlex
from pathlib import Path

from fresh.cli import options

SUMMARY = "Train a model on labeled text"
ABOUT = """\
Train a classifier that shows the words its answers are computed from, measure
it, and save it.

  fresh train reviews.csv --text review --label sentiment --out my-model
  fresh train train.jsonl --dev dev.jsonl --test test.jsonl --ratio 0.1 \\
      --out my-model
  fresh train sst --data-dir corpora --out sst-model

To resume an interrupted run, repeat the same command.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh train DATA [DATA ...] --out MODEL [options]"
    options.add_shared(parser, "data")
    parser.add_argument("--out", required=True, metavar="MODEL", help="Folder to save the model in")
    options.add_shared(parser, "--data-dir", "--config", "--overwrite")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from fresh.evaluation.html_report import report_path
    from fresh.pipeline import describe_unfinished, train
    from fresh.reporting.console import show_report
    from fresh.training.distributed import process_group

    places = {"out": args.out, "overwrite": args.overwrite, "data_dir": args.data_dir, "config": args.config}
    try:
        model = train(options.data_source(args), **places, **options.run_settings(args))
    except KeyboardInterrupt as error:
        kept = describe_unfinished(Path(args.out)) or "No epoch was finished, so nothing is kept."
        raise KeyboardInterrupt(kept) from error
    if not process_group().is_main:  # of several processes, one prints
        return
    if model.report is not None:
        show_report(Console(), model.report)
    print(f"Report: {report_path(Path(args.out))}")
    query = ' --query "A question?"' if model.needs_query else ""
    example = f' Try: fresh explain {shlex.quote(str(args.out))} "Some text."{query}'
    print(f"Saved in {args.out}.{'' if model.settings['method'] == 'human' else example}")
