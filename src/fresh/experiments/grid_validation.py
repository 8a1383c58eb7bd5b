"""What is wrong with a grid file as a whole: its parts, its corpora, and runs that go by one name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fresh.config import suggest
from fresh.data.corpora import CORPORA
from fresh.experiments.grid import RunSpec
from fresh.experiments.grid_keys import wrong_part

TABLES = ("name", "about", "documents", "settings", "grid", "corpora", "rows", "figure")


@dataclass(frozen=True, slots=True)
class Row:
    """What a row of a grid file stands for."""

    cells: tuple[RunSpec, ...]
    spans: Mapping[str, Any]
    """What is drawn anew for each seed, and from where."""

    def lasting(self, cell: RunSpec) -> dict[str, Any]:
        """List what its runs of one name on one corpus have in common: all but the seed, and what is drawn."""
        settings = {name: value for name, value in cell.settings.items() if name != "seed"}
        return {"method": cell.method, "reads": cell.reads, **settings, **self.spans}


def wrong_tables(given: Mapping[str, Any]) -> Iterator[str]:
    """Name the parts of a file that are unknown, or not of the form they must have."""
    for name in given:
        if name not in TABLES:
            yield wrong_part(name, TABLES)
    rows = given.get("rows", [{}])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows) or not rows:
        yield "rows must be tables, each under its own [[rows]]."
    for name in ("settings", "grid", "corpora", "figure"):
        if not isinstance(given.get(name, {}), Mapping):
            yield f"{name} must be a table, as in [{name}]."
    corpora = given.get("corpora", {})
    for name, about in corpora.items() if isinstance(corpora, Mapping) else ():
        if not isinstance(about, Mapping):
            yield f"{name} must be a table, as in [corpora.{name}]."
        elif not _is_places(about.get("data", [])):
            yield f"data of the corpus {name} must name a file or several, got {about['data']!r}."


def wrong_rows(given: Mapping[str, Any]) -> Iterator[str]:
    """Say that there are no rows, and what one looks like."""
    if "rows" not in given:
        look = "[[rows]] in one line, and in the next, for example, scorer = 'attention' or method = 'full_text'"
        yield f"there are no rows, so there is nothing to train. A row looks like this: {look}."


def _is_places(data: Any) -> bool:
    """Say whether a value names a file, or several."""
    return all(isinstance(name, str) for name in (data if isinstance(data, list) else [data]))


def wrong_values(given: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with the values that are no tables."""
    documents = given.get("documents", 1)
    if not isinstance(documents, int) or isinstance(documents, bool) or documents < 1:
        yield f"documents must be a whole number of at least 1, got {documents!r}."
    name = str(given.get("name", "grid"))
    if Path(name).name != name or not name.isprintable():
        yield f"name must be one that a file can have, got {name!r}."


def _own_corpora(given: Mapping[str, Any]) -> list[str]:
    """List the corpora that a grid file itself declares."""
    return [name for name, about in given.get("corpora", {}).items() if "data" in about]


def corpora_of(row: Mapping[str, Any], given: Mapping[str, Any]) -> list[Any]:
    """List the corpora of a row: as it says, as the grid says, all that the file declares, or all of the paper's."""
    usual = given.get("grid", {}).get("corpus", _own_corpora(given) or list(CORPORA))
    return as_list(row.get("corpus", usual))


def as_list(values: Any) -> list[Any]:
    """Take a list, or make one of a single value."""
    return values if isinstance(values, list) else [values]


def wrong_corpora(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[str]:
    """Name corpora that nobody knows, or, if there are none, tables that are of no use."""
    tables, known = given.get("corpora", {}), (*_own_corpora(given), *CORPORA)
    asked = as_list(overrides.get("corpus", []))
    listed = [*(name for row in given["rows"] for name in corpora_of(row, given)), *asked]
    used = list(dict.fromkeys(map(str, listed)))
    strange = [name for name in used if name not in known]
    for name in strange:
        if not name.strip():
            yield f"corpus is given without a name. There are: {', '.join(known)}."
        elif name in tables:
            yield f"the corpus {name} has no data. Say where it is: data = 'FILE' in [corpora.{name}]."
        else:
            yield suggest(name, "a corpus of this grid or of the paper", known)
    for name in () if strange else tables:
        if name not in used:
            way_out = "Mend its name, name it in corpus too, or leave it out."
            yield f"[corpora.{name}] is of no use: rows are tried on {', '.join(used)} only. {way_out}"


def namesakes(rows: Sequence[Row]) -> Iterator[str]:
    """Name runs that a table could not tell apart, or would take for one with several seeds."""
    found: dict[tuple[str, str], tuple[RunSpec, dict[str, Any]]] = {}
    told: set[tuple[str, str]] = set()
    for row in rows:
        for cell in row.cells:
            place, own = (cell.row, cell.corpus), row.lasting(cell)
            other, others = found.setdefault(place, (cell, own))
            if own != others and place not in told:
                told.add(place)
                names = [name for name in dict.fromkeys((*others, *own)) if others.get(name) != own.get(name)]
                values = "; ".join(f"{name} is {_shown(name, others)} and {_shown(name, own)}" for name in names)
                whose = f"two runs are called {cell}" if cell.seed == other.seed else f"{other} and {cell} are one row"
                yield f"{whose}, but differ: {values}. Give their rows names of their own."


def _shown(name: str, settings: Mapping[str, Any]) -> str:
    """Write the value of a setting, or that there is none."""
    return repr(settings[name]) if name in settings else "not given"
