"""Tables in memory as records: pandas frames and datasets, recognised without loading either library."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np


def is_frame(source: object) -> bool:
    """Recognise a pandas frame without loading pandas."""
    return hasattr(source, "itertuples") and hasattr(source, "columns")


def records_of(source: Iterable[Any]) -> Iterable[Any]:
    """Take the records of a table; classes that a datasets.Dataset numbers get their names."""
    if is_frame(source):
        return _frame_records(source)
    features = getattr(source, "features", None) or {}
    names = {column: kind.names for column, kind in features.items() if hasattr(kind, "int2str")}
    return _named_classes(source, names) if names else source


def _named_classes(records: Iterable[Any], names: Mapping[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Put the name of a class in the place of its number; a number below 0 stands for no label."""
    for record in records:
        yield {
            column: value if value is None or column not in names else names[column][value] if value >= 0 else None
            for column, value in record.items()
        }


def _frame_records(frame: Any) -> Iterator[dict[str, Any]]:
    """Read the rows of a pandas frame."""
    columns = [str(column) for column in frame.columns]
    for cells in frame.itertuples(index=False, name=None):
        yield dict(zip(columns, cells, strict=True))


def is_null(cell: object) -> bool:
    """Tell whether a cell is empty: none, blank, not a number, or pandas' word for it."""
    if isinstance(cell, str):
        return not cell.strip()
    nan = isinstance(cell, float | np.floating) and math.isnan(cell)
    return cell is None or nan or type(cell).__name__ in ("NAType", "NaTType")
