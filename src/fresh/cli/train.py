"""`fresh train`."""

import argparse
import shlex
import sys
from pathlib import Path

from fresh.cli.options import INTERRUPTED, add_settings, data_given, settings_given, with_flags

SUMMARY = "train a model on labelled text"
ABOUT = """\
Train a classifier that shows the words its answers are made from, measure it, and save it.

  fresh train reviews.csv --text review --label sentiment --out my-model
  fresh train train.jsonl --dev dev.jsonl --test test.jsonl --scorer attention --ratio 0.1 --out my-model
  fresh train sst --data-dir corpora --out sst-model

Training that was broken off goes on when the same command is given again.
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh train`."""
    parser.usage = "fresh train DATA [DATA ...] --out MODEL [options]"
    parser.description = ABOUT
    parser.add_argument("data", nargs="+", metavar="DATA", help="a file or several, a folder, or the name of a corpus")
    parser.add_argument("--out", required=True, metavar="MODEL", help="folder to save the model in")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of a named corpus")
    parser.add_argument("--config", metavar="FILE.toml", help="settings file; options given here go before it")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there already")
    if whole:
        add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Train, measure, save, and show the table."""
    from rich.console import Console

    from fresh.evaluation.html_report import report_path
    from fresh.pipeline import describe_unfinished, train
    from fresh.reporting.console import show_report
    from fresh.training.distributed import process_group

    places = {"out": args.out, "overwrite": args.overwrite, "data_dir": args.data_dir, "config": args.config}
    try:
        model = train(data_given(args), **places, **settings_given(args))
    except KeyboardInterrupt:
        kept = with_flags(describe_unfinished(Path(args.out)), args.options, ())
        print(f"\nInterrupted. {kept or 'No epoch was finished, so nothing is kept.'}", file=sys.stderr)
        return INTERRUPTED
    if not process_group().is_main:
        return 0
    if model.report is not None:
        show_report(Console(), model.report)
    print(f"Report: {report_path(Path(args.out))}")
    asked = ' --query "A question?"' if model.needs_query else ""
    hint = (
        ""
        if model.settings["method"] == "human"
        else f' Try: fresh explain {shlex.quote(str(args.out))} "Some text."{asked}'
    )
    print(f"Saved in {args.out}.{hint}")
    return 0
