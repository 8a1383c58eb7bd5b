"""`fresh explain --engine ray`."""

import argparse
import sys
from pathlib import Path

from fresh.cli.options import INTERRUPTED, check_engine, reading

REFUSED = {"text_given": "TEXT", "curve": "--curve", "certify": "--certify"}
"""What takes one machine, by the name of the option."""


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that make no sense on a cluster, and those of a cluster where there is none."""
    check_engine(args)
    if args.engine != "ray":
        if args.workers is not None:
            raise ValueError("--workers is for a Ray cluster: add --engine ray, or leave it out.")
        return
    for name, told in REFUSED.items():
        if getattr(args, name):
            raise ValueError(f"--engine ray explains a file with many texts, which does not go with {told}.")
    if args.input == "-" or args.output == "-":
        raise ValueError("--engine ray reads a file and writes one: name them with --input and --output.")
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {args.workers}.")


def explain_file(args: argparse.Namespace) -> int:
    """Explain the texts of a file on a cluster; the output is there when all are explained, or not at all."""
    from fresh._io import atomic_write
    from fresh.data.examples import count_rows
    from fresh.data.splits import BadRows
    from fresh.experiments.ray_explain import ExplainRequest, explain_on_cluster
    from fresh.progress import Terminal

    reads, bad = reading(args), BadRows()
    request = ExplainRequest(args.input, reads, args.ratio, args.scores, args.device)
    lines = explain_on_cluster(args.model, request, bad, args.address, args.workers)
    try:
        with (
            Terminal().task("explaining", count_rows(args.input, reads)) as advance,
            atomic_write(Path(args.output)) as place,
            place.open("w", encoding="utf-8") as output,
        ):
            for some in lines:
                output.write(some)
                advance(some.count("\n"), "")
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing was written.", file=sys.stderr)
        return INTERRUPTED
    finally:
        lines.close()
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)
    return 0
