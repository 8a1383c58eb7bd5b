"""Results of a file as a table, also for a spreadsheet."""

import csv
import json
from collections.abc import Iterable, Iterator

from fresh.reporting.tables import escape_formula

COLUMNS = ("id", "label", "probability", "ratio", "read")
GAP = " … "
"""Stands between runs of words that were read."""


class _Echo:
    """A file that gives back what is written to it."""

    def write(self, text: str) -> str:
        """Give the text back."""
        return text


def as_csv(lines: Iterable[str]) -> Iterator[str]:
    """Turn results into a table; what a spreadsheet would take for a formula gets an apostrophe before it."""
    write = csv.writer(_Echo()).writerow  # which gives back what its file gives back
    yield write(COLUMNS)
    for line in lines:
        record = json.loads(line)
        read = GAP.join(span["text"] for span in record["rationale"])
        cells = (record["id"], record["label"], record["probability"], record["ratio"], read)
        yield write([escape_formula(cell) if isinstance(cell, str) else cell for cell in cells])
