"""`fresh demo`: a model of film reviews in a few minutes, and what its answers were computed from."""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from fresh.cli.options import add_shared

SUMMARY = "Train on film reviews that come with fresh, in a few minutes"
ABOUT = """\
Train a small model on sentences from film reviews, and show its report and
some of its answers. Takes a few minutes without a GPU.

  fresh demo
  fresh demo --out my-model
"""
_RATIO = 0.3
# Less accurate than the defaults, but done in minutes without a GPU.
_SETTINGS: dict[str, Any] = {"epochs": 3, "layers": 2, "pooling": "start", "learning_rate": 1e-4}
_NEXT = """\
The model is saved in {out}, its report in {page}. Try next:
  {fresh} explain {out} "A lovely, funny film with a dull ending."
  {fresh} serve {out}      # the same in the browser
  {fresh} train your-data.csv --out your-model      # columns: text, label"""
_N_EXPLAINED = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default="fresh-demo", metavar="MODEL", help="Folder (default: %(default)s)")
    add_shared(parser, "--overwrite")


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from fresh.data.corpora import read_demo
    from fresh.evaluation.html_report import report_path
    from fresh.pipeline import train
    from fresh.reporting.console import show_explanation, show_report

    console, splits = Console(highlight=False), read_demo()
    console.print("Sentences from film reviews: is the critic for or against the film?")
    console.print(f"The predictor reads {_RATIO:.0%} of the words of each and answers from them.\n")
    model = train(splits, out=args.out, overwrite=args.overwrite, ratio=_RATIO, **_SETTINGS)
    if model.report is not None:
        show_report(console, model.report)
    console.print("\nUnderlined or in brackets: the words that the predictor read.\n")
    by_label = [[example for example in splits.test if example.label == label] for label in model.labels]
    few = [example for group in by_label for example in group[:_N_EXPLAINED]]
    pairs = list(zip(few, model.explain([example.document for example in few]), strict=True))
    for is_right, n_shown in ((True, 2), (False, 1)):
        for label in model.labels:
            own = [pair for pair in pairs if pair[0].label == label]
            for _, explanation in [pair for pair in own if (pair[1].prediction.label == label) is is_right][:n_shown]:
                show_explanation(console, explanation, label)
    called = Path(sys.argv[0])
    command = str(called) if called.name == "fresh" and not shutil.which("fresh") else "fresh"
    text = _NEXT.format(out=args.out, page=report_path(args.out), fresh=command)
    console.print(text, markup=False, soft_wrap=True)  # commands stay on one line
