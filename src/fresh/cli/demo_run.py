"""The demo: sentences from film reviews, a model in a few minutes, and what its answers were made from."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fresh.data.corpora import read_demo
from fresh.document import Example, Explanation
from fresh.evaluation.html_report import report_path
from fresh.pipeline import train
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import show_explanation, show_report

RATIO = 0.3
QUICK: dict[str, Any] = {"epochs": 3, "layers": 2, "pooling": "start", "learning_rate": 1e-4}
"""Less accurate than the defaults, but done in minutes without a GPU."""
NEXT = """\
The model is saved in {out}, its report in {page}. Try next:
  {fresh} explain {out} "A lovely, funny film with a dull ending."
  {fresh} serve {out}      # the same in the browser
  {fresh} train your-data.csv --out your-model      # columns: text, label"""
LOOKED_AT = 50
SHOWN = {True: 2, False: 1}
"""How many right and wrong answers are shown for each class."""


def run(out: Path, overwrite: bool, console: Console) -> Rationalizer:
    """Train on the demo's reviews, show the table and some answers, and say what to try next."""
    splits = read_demo()
    console.print("Sentences from film reviews: is the critic for or against the film?", highlight=False)
    console.print(
        f"A predictor reads only {RATIO:.0%} of the words of each and must answer from them.\n", highlight=False
    )
    model = train(splits, out=out, overwrite=overwrite, ratio=RATIO, **QUICK)
    if model.report is not None:
        show_report(console, model.report)
    console.print("\nUnderlined or in brackets: what the predictor read, and all that it read.\n", highlight=False)
    for example, explanation in _chosen(splits.test, model):
        show_explanation(console, explanation, example.label)
    console.print(
        NEXT.format(out=out, page=report_path(out), fresh=_command()), highlight=False, markup=False, soft_wrap=True
    )  # commands stay in one line
    return model


def _command() -> str:
    """Spell the command as it can be called here."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "fresh" and not shutil.which("fresh") else "fresh"


def _chosen(examples: Sequence[Example], model: Rationalizer) -> list[tuple[Example, Explanation]]:
    """Take the first right and the first wrong answers to test documents of each class."""
    some = [item for label in model.labels for item in [each for each in examples if each.label == label][:LOOKED_AT]]
    pairs = list(zip(some, model.explain([example.document for example in some]), strict=True))
    picked: list[tuple[Example, Explanation]] = []
    for right, number in SHOWN.items():
        answered = [pair for pair in pairs if (pair[0].label == pair[1].prediction.label) is right]
        for label in model.labels:
            picked += [pair for pair in answered if pair[0].label == label][:number]
    return picked
