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
from fresh.text import plural

if TYPE_CHECKING:
    from fresh.experiments.scheduler import Executor

SUMMARY = "Train and test a whole grid of models from one file"
ABOUT = """\
Train and test all models of an experiment, several at a time, and watch the
table fill up. Finished runs are never repeated: to resume an interrupted
experiment, or to run new rows of the file, repeat the same command.

  fresh run experiments/main.toml --data-dir DATA --out runs
  fresh table runs main            the table so far, also while it runs
  fresh run experiments/main.toml --data-dir DATA --out quick \\
      --documents 200 --set epochs=1 --set seed=0

With --engine ray, the nodes of a Ray cluster do the work. All nodes must see
the folders of --out and --data-dir, and the files that the grid names, under
the same paths; this is checked first.

A grid file lists rows, and what each is tried on; see docs/reference/grid.md:

  [grid]
  corpus = ["sst", "movies"]       names of the paper's corpora, or your own
  seed = [0, 1, 2]

  [[rows]]
  name = "FRESH, attention"
  scorer = "attention"             a setting, as for `fresh train`
  ratio = ["1x", "0.5x"]           a list makes one run for each value
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh run GRID.toml [GRID.toml ...] --out FOLDER [options]"
    parser.add_argument("grids", nargs="+", type=Path, metavar="GRID.toml", help="Grid files, which run together")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="Folder of runs; grids may share one")
    add_shared(parser, "--data-dir", "--engine", "--address")
    parser.add_argument("--workers", type=int, metavar="N", help="Number of runs at a time (default: as many as fit)")
    parser.add_argument("--documents", type=int, metavar="N", help="Most documents of each split, for a quick look")
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
        print(f"{n_done} of {plural(experiment.n_runs, 'run')} done. Table: fresh table {args.out} {experiment.name}")
        if experiment.n_dropped:
            dropped = f"Runs of an earlier plan of {experiment.name} that are no longer in its table: "
            print(f"{dropped}{experiment.n_dropped}. The command that planned them brings them back.")
    # A run of several experiments is listed once.
    failures = dict.fromkeys(failure for experiment in experiments for failure in experiment.failures.items())
    for spec, reason in failures:
        print(f"failed: {spec}: {reason}", file=sys.stderr)
    if failures:
        # A damaged file would fail again.
        first = "Fix the problems above first. " if any("Delete the file" in reason for _, reason in failures) else ""
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
