"""`fresh search`."""

import argparse
import sys
from pathlib import Path

from fresh.cli.options import INTERRUPTED, add_settings, data_given, settings_given

SUMMARY = "look for good settings by training many times"
ABOUT = """\
Train again and again with settings that are drawn, judge each model on dev, and write down the best settings. For the
method lei it is the search of the paper: 20 trials, lambda_1 from 0.01 to 1 on a log scale, lambda_2 of 0, 0.5, 1, 2.

  fresh search reviews.csv --method lei --out my-search
  fresh train reviews.csv --config my-search/best.toml --out my-model
  fresh search reviews.csv --space learning_rate=1e-5:1e-3:log --space layers=1,2,3 --trials 10 --out my-search

A search that was broken off goes on when the same command is given again.
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh search`."""
    parser.usage = "fresh search DATA [DATA ...] --out FOLDER [options]"
    parser.description = ABOUT
    parser.add_argument("data", nargs="+", metavar="DATA", help="a file or several, a folder, or the name of a corpus")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of the search")
    parser.add_argument("--trials", type=int, default=20, help="how many trainings in all (default: %(default)s)")
    parser.add_argument("--space", action="append", metavar="NAME=VALUES", help="what is drawn; may be given again")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of a named corpus")
    parser.add_argument("--config", metavar="FILE.toml", help="settings file; options given here go before it")
    if whole:
        add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Look for good settings and say how to use them."""
    from fresh.experiments.search import BEST_FILE, search

    how = {"trials": args.trials, "space": args.space or ()}
    places = {"out": args.out, "data_dir": args.data_dir, "config": args.config}
    try:
        best = search(data_given(args), **places, **how, **settings_given(args))
    except KeyboardInterrupt:
        print("\nInterrupted. Give the same command again to go on with the trials that are left.", file=sys.stderr)
        return INTERRUPTED
    shown = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    print(f"Best: {shown}. Train with it: fresh train ... --config {Path(args.out) / BEST_FILE}")
    return 0
