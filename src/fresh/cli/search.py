"""`fresh search`."""

import argparse
import sys
from pathlib import Path

from fresh.cli import options

SUMMARY = "Search for good settings by training many times"
ABOUT = """\
Train with settings that are sampled at random, compare the models on the dev
split, and save the best settings. For the method lei, this is the search of
the paper: 20 trials, lambda_1 from 0.01 to 1 on a log scale, lambda_2 from 0,
0.5, 1 and 2.

  fresh search reviews.csv --method lei --out my-search
  fresh train reviews.csv --config my-search/best.toml --out my-model
  fresh search reviews.csv --space learning_rate=1e-5:1e-3:log \\
      --space layers=1,2,3 --trials 10 --out my-search

To resume an interrupted search, repeat the same command.
"""


def add_arguments(parser: argparse.ArgumentParser, with_settings: bool) -> None:
    """Describe `fresh search`."""
    parser.usage = "fresh search DATA [DATA ...] --out FOLDER [options]"
    parser.description = ABOUT
    options.add_data(parser)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="Folder of the search")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="Number of trials (default: %(default)s)")
    text = "A setting and its LOW:HIGH, LOW:HIGH:log or list of values; can be repeated"
    parser.add_argument("--space", action="append", metavar="NAME=VALUES", help=text)
    options.add_data_dir(parser)
    text = "Settings file; command-line options override it"
    parser.add_argument("--config", metavar="FILE.toml", help=text)
    if with_settings:
        options.add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Search for good settings, and say how to use them."""
    from fresh.experiments.search import BEST_FILE, search

    keywords = {"out": args.out, "data_dir": args.data_dir, "config": args.config, "trials": args.trials}
    try:
        best = search(options.data_source(args), space=args.space or (), **keywords, **options.run_settings(args))
    except KeyboardInterrupt:
        print("\nInterrupted. To run the remaining trials, repeat the same command.", file=sys.stderr)
        return options.INTERRUPTED
    shown = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    print(f"Best: {shown}. To train with it: fresh train ... --config {Path(args.out) / BEST_FILE}")
    return 0
