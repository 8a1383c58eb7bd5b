"""Each discretizer beside a direct one in plain Python, as rows of the table."""

from typing import Any

from discretizers import rows
from measuring import Outcome, Row, Settings, apart

DOCUMENTS = 10_000
WORDS = 300
LEAST = 30
"""How many times faster than plain Python a discretizer is to be."""


def measure(settings: Settings) -> list[Row]:
    """Measure all discretizers, round by round, in processes of their own; the better time of each side counts."""
    n = settings.up_to(DOCUMENTS)
    rounds = [apart("cpu", measure_once, n).facts["rows"] for _ in range(settings.rounds)]
    return [to_row(found) for found in zip(*rounds, strict=True)]


def measure_once(n: int) -> Outcome:
    """Measure all discretizers."""
    found = list(rows(n, WORDS))
    return Outcome(sum(row["seconds"] for row in found), facts={"rows": found})


def to_row(found: tuple[dict[str, Any], ...]) -> Row:
    """Make a row of one discretizer from all rounds; both sides keep the same words, or there would be none."""
    seconds, peer = (min(row[name] for row in found) for name in ("seconds", "python_seconds"))
    first = found[0]
    return Row(
        row="discretizers",
        what=f"{first['discretizer']}, {first['documents']:,} documents of {first['words']} words",
        goal=f"at least {LEAST}x",
        met=peer / seconds >= LEAST,
        seconds=seconds,
        peer_seconds=peer,
        ratio=peer / seconds,
        memory=max(row["process_mb"] for row in found),
        note="same words kept",
        facts={"rounds": found},
    )
