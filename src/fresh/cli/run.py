"""`fresh run`."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import INTERRUPTED, add_engine, check_engine
from fresh.experiments.overrides import parse_lists

if TYPE_CHECKING:
    from fresh.experiments.executor import Executor

FIRST = "Delete the file"
"""How a failure begins what it asks for, without which the next try would fail as well."""
SUMMARY = "train and test a whole grid of models from one file"
ABOUT = """\
Train and test all models of an experiment, each once, several at a time, and watch the table fill up. What is done is
never done again: give the same command again to go on after a break, or with more rows in the file.

  fresh run experiments/main.toml --data-dir DATA --out runs
  fresh table runs main                        the table so far, also while it runs
  fresh run experiments/main.toml experiments/lengths.toml --data-dir DATA --out runs      what both need is done once
  fresh run experiments/main.toml --data-dir DATA --out quick --documents 200 --set epochs=1 --set seed=0
  fresh run experiments/main.toml --data-dir DATA --out runs --set corpus=sst,agnews --set seed=0,1
  fresh run experiments/main.toml --data-dir /shared/DATA --out /shared/runs --engine ray --address 10.0.0.1:6379

With --engine ray, the work is done on all nodes of a Ray cluster. They must all see the folders of --out and --data-dir
under the same names, which is looked at first, and so the files that the grid names.

A grid file lists rows and what each is tried on:

  [grid]
  corpus = ["sst", "movies"]                   names of the paper's corpora, or your own (below)
  seed = [0, 1, 2]

  [settings]                                   of all runs, as of `fresh train`
  encoder = "minilm"

  [corpora.reviews]                            a corpus of your own, and settings of one corpus
  data = "reviews.csv"
  ratio = 0.2

  [[rows]]
  name = "FRESH, attention"
  scorer = "attention"
  discretizer = ["top_k", "contiguous"]        a list stands for one run each
  ratio = ["1x", "0.5x"]                       so many times the ratio of the corpus

  [[rows]]
  method = "lei"
  trials = 20                                  settings that are drawn, so many times
  draw = { lambda_1 = "0.01:1:log", lambda_2 = "0,0.5,1,2" }

  [figure]                                     what `fresh plot` draws, which is looked at before anything runs
  x = "ratio"
  by = "discretizer"
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh run`."""
    parser.usage = "fresh run GRID.toml [GRID.toml ...] --out FOLDER [options]"
    parser.description = ABOUT
    parser.add_argument("grids", nargs="+", type=Path, metavar="GRID.toml", help="experiments, done together")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder of runs; others may be there")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with the files of the paper's corpora")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at a time (default: what suits the machines)")
    add_engine(parser, "on which the runs are done")
    few = "documents of each split, at most, for a quick look; drawn by lot, the same ones every time"
    parser.add_argument("--documents", type=int, metavar="N", help=few)
    text = (
        "a setting of all runs that have it, whatever the file says; several values with commas stand for one run each"
    )
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="NAME=VALUES", help=text)
    parser.add_argument("--retry", action="store_true", help="try again what failed before")


def run(args: argparse.Namespace) -> int:
    """Do all runs, and say which failed."""
    check_engine(args)
    overrides = parse_lists(args.overrides)  # before anything is loaded, which takes seconds
    from fresh.experiments.run import run_grids
    from fresh.experiments.store import check_place

    check_place(args.out)
    grids = args.grids if args.engine == "local" else [path.resolve() for path in args.grids]  # others are elsewhere
    how = {"data_dir": args.data_dir, "retry": args.retry, "documents": args.documents}
    try:
        with contextlib.closing(_make_engine(args)) as engine:
            ended = run_grids(grids, args.out, engine=engine, overrides=overrides, **how)
    except KeyboardInterrupt:
        print("\nInterrupted. Give the same command again to go on with what is left.", file=sys.stderr)
        return INTERRUPTED
    for done in ended:
        n_done = done.n_runs - len(done.failures)
        print(f"{n_done} of {done.n_runs} runs are done. Table: fresh table {args.out} {done.name}")
        if done.n_dropped:
            print(
                f"Done, but no longer in the plan of {done.name} and its table: {done.n_dropped} of an earlier plan. "
                "The command that planned them brings them back."
            )
    failures = dict.fromkeys((cell, reason) for done in ended for cell, reason in done.failures.items())
    for cell, reason in failures:
        print(f"failed: {cell}: {reason}", file=sys.stderr)
    if failures:
        first = "Do what is said above first. " if any(FIRST in reason for _, reason in failures) else ""
        print(f"{first}Try again what failed: the same command with --retry.", file=sys.stderr)
    return 1 if failures else 0


def _make_engine(args: argparse.Namespace) -> "Executor":
    """Get workers: processes on this machine, or on the nodes of a cluster."""
    if args.engine == "ray":
        from fresh.experiments.ray_executor import RayExecutor

        return RayExecutor(args.out, args.data_dir, args.address, args.workers)
    from fresh.experiments.local import LocalExecutor

    return LocalExecutor(args.out, args.data_dir, args.workers)
