"""`fresh demo`."""

import argparse
from pathlib import Path

SUMMARY = "train on film reviews that come along; a few minutes"


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh demo`."""
    parser.add_argument("--out", default="fresh-demo", metavar="MODEL", help="folder for the model (%(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there already")


def run(args: argparse.Namespace) -> int:
    """Train on film reviews and look at the answers."""
    from rich.console import Console

    from fresh.cli.demo_run import run

    run(Path(args.out), args.overwrite, Console())
    return 0
