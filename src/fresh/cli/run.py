import argparse
import contextlib
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh.cli.options import add_shared, check_engine, hint_on_interrupt
from fresh.config import parse_assignments
from fresh.errors import ConfigError

if TYPE_CHECKING:
    from fresh.experiments.scheduler import Executor

SUMMARY = "Train and test a whole grid of models from one file"
ABOUT = """\
Train and test all models of an experiment, several at a time, and watch the
table fill up. Finished runs are never repeated: to resume an interrupted
experiment, or to run new rows of the file, repeat the same command.

  fresh run experiments/main.toml --data-dir DATA --out runs
  fresh table runs main            the table so far, also while it runs
  fresh run experiments/main.toml experiments/lengths.toml \\
      --data-dir DATA --out runs   runs that both need are done once
  fresh run experiments/main.toml --data-dir DATA --out quick \\
      --documents 200 --set epochs=1 --set seed=0
  fresh run experiments/main.toml --data-dir /shared/DATA --out /shared/runs \\
      --engine ray --address 10.0.0.1:6379

With --engine ray, the nodes of a Ray cluster do the work. All nodes must see
the folders of --out and --data-dir, and the files that the grid names, under
the same paths; this is checked first.

A grid file lists rows, and what each is tried on:

  [grid]
  corpus = ["sst", "movies"]       names of the paper's corpora, or your own
  seed = [0, 1, 2]

  [settings]                       of all runs, as for `fresh train`
  encoder = "minilm"

  [corpora.reviews]                your own corpus, and settings of one corpus
  data = "reviews.csv"
  ratio = 0.2

  [[rows]]
  name = "FRESH, attention"
  scorer = "attention"
  discretizer = ["top_k", "contiguous"]     a list makes one run for each value
  ratio = ["1x", "0.5x"]           multiples of the ratio of the corpus

  [[rows]]
  method = "lei"
  trials = 20                      number of runs with sampled settings
  draw = { lambda_1 = "0.01:1:log", lambda_2 = "0,0.5,1,2 * lambda_1" }

  [figure]                         what `fresh plot` draws; checked first
  x = "ratio"
  by = "discretizer"
"""
_FIX_FIRST = "Delete the file"
"""Failures that begin so must be fixed before the next try."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh run GRID.toml [GRID.toml ...] --out FOLDER [options]"
    text = "Grid files; their experiments run together"
    parser.add_argument("grids", nargs="+", type=Path, metavar="GRID.toml", help=text)
    text = "Folder of runs; it may hold other experiments"
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help=text)
    add_shared(parser, "--data-dir", "--engine", "--address")
    text = "Number of runs at a time (default: as many as the machines have room for)"
    parser.add_argument("--workers", type=int, metavar="N", help=text)
    text = "For a quick look: most documents of each split, the same random sample each time"
    parser.add_argument("--documents", type=int, metavar="N", help=text)
    text = "Override a setting in all runs that have it; several values make one run each; can be repeated"
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="NAME=VALUES", help=text)
    parser.add_argument("--retry", action="store_true", help="Retry failed runs")


def run(args: argparse.Namespace) -> int:
    check_engine(args)
    overrides = parse_overrides(args.overrides)  # before torch is loaded, which takes seconds
    from fresh.experiments.run import run_grids
    from fresh.experiments.store import check_folder

    check_folder(args.out)
    # Other nodes run in other folders.
    grids = args.grids if args.engine == "local" else [path.resolve() for path in args.grids]
    data_dir = None if args.data_dir is None else Path(args.data_dir)
    options = {"data_dir": data_dir, "retry": args.retry, "documents": args.documents, "overrides": overrides}
    with (
        hint_on_interrupt("To do the remaining runs, repeat the same command."),
        contextlib.closing(_make_executor(args, data_dir)) as executor,
    ):
        experiments = run_grids(grids, args.out, executor=executor, **options)
    for experiment in experiments:
        n_done = experiment.n_runs - len(experiment.failures)
        print(f"{n_done} of {experiment.n_runs} runs are done. Table: fresh table {args.out} {experiment.name}")
        if experiment.n_dropped:
            print(
                f"Runs of an earlier plan of {experiment.name} that are no longer in its table: "
                f"{experiment.n_dropped}. The command that planned them brings them back."
            )
    # A run of several experiments is listed once.
    failures = dict.fromkeys(failure for experiment in experiments for failure in experiment.failures.items())
    for spec, reason in failures:
        print(f"failed: {spec}: {reason}", file=sys.stderr)
    if failures:
        first = "Fix the problems above first. " if any(_FIX_FIRST in reason for _, reason in failures) else ""
        print(f"{first}To retry failed runs, repeat the command with --retry.", file=sys.stderr)
    return 1 if failures else 0


def _make_executor(args: argparse.Namespace, data_dir: Path | None) -> "Executor":
    if args.engine == "ray":
        from fresh.experiments.ray_executor import RayExecutor

        return RayExecutor(args.out, data_dir, args.address, args.workers)
    from fresh.experiments.local import LocalExecutor

    return LocalExecutor(args.out, data_dir, args.workers)


def parse_overrides(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse settings of the form key=value, or key=one,two for several values.

    Values that contain commas are written as a TOML list.
    """
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        [(name, text)] = parse_assignments([assignment]).items()
        if name in overrides:
            raise ConfigError(f"{name} is given twice. List all of its values together: {name}=one,two.")
        if text.startswith("["):
            try:
                overrides[name] = tomllib.loads(f"values = {text}")["values"]
            except tomllib.TOMLDecodeError as error:
                raise ConfigError(f"{name}={text} is not a TOML list such as ['a', 'b']: {error}.") from error
            continue
        values = [value.strip() for value in text.split(",")]
        if len(values) > 1 and "" in values:
            raise ConfigError(f"{name}={text} has a comma without a value. Write {name}=one,two.")
        overrides[name] = values if len(values) > 1 else text
    return overrides
