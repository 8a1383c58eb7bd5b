"""How `fresh study serve` bears a crowd: people who answer over HTTP at the same time, and what becomes of it.

    python benchmarks/study_serve.py [--people 30] [--seconds 60] [--pause 0] [--servers 1] [--database URL]

A server runs in a process of its own; everybody signs in, practises, and answers as fast as the pages come (or reads
each text for --pause seconds), and now and then sends an answer twice. Ends with 1 if anything was refused, lost or
doubled. Times are from sending an answer to having the next page; clients share the machine with the server.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

from fresh.study.annotators import add_annotators
from fresh.study.store import create_study
from studies import plan
from visitors import crowd, server_of

WAYS = {f"full {number}": {"kind": "full_text"} for number in range(10)}


def run(args: argparse.Namespace, place: str) -> dict[str, float | bool]:
    """Make a study that nobody can finish in time, and let people answer."""
    sizes = {"sample": args.documents, "practice": 2, "checks": 3, "per_item": 3}
    with closing(create_study(place, plan(WAYS, n=args.documents + 4, **sizes))) as store:
        codes = add_annotators(store, args.people)
    with ExitStack() as stack:
        addresses = [stack.enter_context(server_of(place))[0] for _ in range(args.servers)]
        found = crowd(place, addresses, codes, args.seconds, args.pause)
    for error in found.errors[:5]:
        print(error, file=sys.stderr)
    return {
        "people": args.people,
        "servers": args.servers,
        "seconds": round(found.seconds, 1),
        "answers": found.n_answers,
        "answers_a_second": round(found.n_answers / found.seconds, 1),
        "errors": len(found.errors),
        "lost": found.lost,
        "doubled": found.doubled,
        "beyond_plan": found.beyond,
        "p50_ms": round(found.quantile(0.5), 1),
        "p95_ms": round(found.quantile(0.95), 1),
        "met": found.n_faults == 0 and found.n_answers > 0,
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=30, help="annotators at the same time (default: 30)")
    parser.add_argument("--seconds", type=float, default=60, help="how long they answer (default: 60)")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds for which a text is read (default: 0)")
    parser.add_argument("--servers", type=int, default=1, help="servers of the one study (default: 1)")
    parser.add_argument("--documents", type=int, default=1000, help="documents of the study (default: 1000)")
    parser.add_argument("--database", metavar="URL", help="an empty database of PostgreSQL (default: SQLite)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(args, args.database or str(Path(folder) / "study"))
    print(json.dumps(figures))
    return 0 if figures["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
