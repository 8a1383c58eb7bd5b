"""Rows as text."""

from collections.abc import Sequence

from measuring import Row

HEADER = ("what", "ours s", "peer s", "ratio", "goal", "macro-F1 ours / peer", "peak memory MB ours / peer")


def cells(row: Row) -> list[str]:
    """Write the cells of a row; what was not measured is a dash."""
    verdict = {True: " (met)", False: " (missed)", None: ""}[row.met]
    return [
        row.what + (f" ({row.note})" if row.note else ""),
        number(row.seconds, 2),
        number(row.peer_seconds, 2),
        number(row.ratio, 2),
        (row.goal or "-") + verdict,
        pair(row.macro_f1, row.peer_macro_f1, 3),
        pair(row.memory, row.peer_memory, 0),
    ]


def number(value: float | None, digits: int) -> str:
    """Write a number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def pair(ours: float | None, peer: float | None, digits: int) -> str:
    """Write what both sides have."""
    return "-" if ours is None else number(ours, digits) + ("" if peer is None else f" / {number(peer, digits)}")


def line(row: Row) -> str:
    """Write a row for the screen."""
    named = zip(HEADER[1:], cells(row)[1:], strict=True)
    shown = ", ".join(f"{name} {value}" for name, value in named if value != "-")
    return f"{row.row}: {cells(row)[0]}: {shown}"


def markdown(rows: Sequence[Row]) -> str:
    """Write the table."""
    lines = [HEADER, ["---"] * len(HEADER), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
