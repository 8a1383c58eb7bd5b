import argparse
from pathlib import Path

from fresh.cli import options

SUMMARY = "Search for good settings by training many times"
ABOUT = """\
Train with settings that are sampled at random, compare the models on the dev
split, and save the best settings. For the method lei, this is the search of
the paper: 20 trials, lambda_1 from 0.01 to 1 on a log scale, lambda_2 of 0,
0.5, 1 or 2 times lambda_1.

  fresh search reviews.csv --method lei --out my-search
  fresh train reviews.csv --config my-search/best.toml --out my-model
  fresh search reviews.csv --space learning_rate=1e-5:1e-3:log \\
      --space layers=1,2,3 --trials 10 --out my-search

To resume an interrupted search, repeat the same command.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh search DATA [DATA ...] --out FOLDER [options]"
    options.add_shared(parser, "data")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="Folder of the search")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="Number of trials (default: %(default)s)")
    text = "A setting and its LOW:HIGH, LOW:HIGH:log or list of values, perhaps with * OTHER; can be repeated"
    parser.add_argument("--space", action="append", metavar="NAME=VALUES", help=text)
    options.add_shared(parser, "--data-dir", "--config")
    options.add_settings(parser)


def run(args: argparse.Namespace) -> None:
    from fresh.experiments.search import BEST_FILE, search

    keywords = {"out": args.out, "data_dir": args.data_dir, "config": args.config, "trials": args.trials}
    with options.hint_on_interrupt("To run the remaining trials, repeat the same command."):
        best = search(options.data_source(args), space=args.space or (), **keywords, **options.run_settings(args))
    shown = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    print(f"Best: {shown}. To train with it: fresh train ... --config {Path(args.out) / BEST_FILE}")
