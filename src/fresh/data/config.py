"""Settings for data: columns, splits and limits."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fresh.config import check_min, raise_all
from fresh.errors import DataError, RowError

Format = Literal["auto", "table", "label_studio", "doccano", "prodigy", "potato", "eraser"]
COLUMNS = ("text", "label", "query", "id", "rationale")
MEGABYTE = 1024**2


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Which column holds what, and how data is read and split."""

    text: str = "text"
    """Column with the text; "document" if there is no column "text"."""
    label: str = "label"
    """Column with the label."""
    query: str = "query"
    """Column with the query: what is asked about the text. Optional."""
    id: str = "id"
    """Column with a name for each row. Optional."""
    rationale: str = "rationale"
    """Column with human rationales: pairs of start and end, in characters, or in words for tokenized text. Optional."""
    tokenised: bool = False
    """The text is tokenized: split it at white space only."""
    dev: str = ""
    """File with the examples that select the best epoch; split off the data by default."""
    test: str = ""
    """File with the examples for the final figures; split off the data by default."""
    dev_share: float = 0.1
    """Share of the rows to split off for dev."""
    test_share: float = 0.1
    """Share of the rows to split off for test."""
    skip_bad: bool = False
    """Leave out rows that cannot be used, and count them."""
    format: Format = "auto"
    """Format of the data: table, the export of an annotation tool (label_studio, doccano, prodigy, potato), eraser, or
    auto to recognize it."""
    agreement: float = 0.5
    """Share of a document's annotators who must have marked a word, at least one annotator."""
    max_row_mb: int = 16
    """Largest row, in megabytes; a file with a larger one is refused."""
    # At 250, a tar of 2.6 million empty members took 280 s and 1 GB. Real data unpacks to at most 44 times its size.
    max_unpacked: int = 100
    """Most that a compressed file may unpack to, as a multiple of its size; 16 MB are always allowed."""

    def __post_init__(self) -> None:
        raise_all(*self._find_problems())

    @property
    def row_bytes(self) -> int:
        """Largest row, in bytes."""
        return self.max_row_mb * MEGABYTE

    def row_error(self, place: str) -> RowError:
        """Build the error for a row that is too large."""
        problem = f"the row is larger than {self.max_row_mb} MB, the limit set by max_row_mb."
        return RowError(place, problem, "Split its text into several rows.")

    def unpack_error(self, name: str) -> DataError:
        """Build the error for a file that unpacks to far more than its size."""
        problem = f"it unpacks to more than {self.max_unpacked} times its size, the limit set by max_unpacked."
        return DataError(f"{name}: {problem} If you trust the file, raise max_unpacked, or unpack it yourself.")

    def _find_problems(self) -> Iterator[str]:
        columns = [(name, getattr(self, name)) for name in COLUMNS]
        yield from (f"{name} must name a column, got ''." for name in ("text", "label") if not getattr(self, name))
        for (name, column), (other, other_column) in itertools.combinations(columns, 2):
            if column and column == other_column:
                yield f"{name} and {other} both name the column {column!r}. Give each its own."
        shares = {"dev_share": self.dev_share, "test_share": self.test_share}
        wrong = [f"{name} must be in (0, 1), got {share}." for name, share in shares.items() if not 0 < share < 1]
        yield from wrong
        if not wrong and self.dev_share + self.test_share >= 1:
            yield f"dev_share and test_share must leave rows to train on, got {self.dev_share} and {self.test_share}."
        if not 0 <= self.agreement <= 1:
            yield f"agreement must be in [0, 1], got {self.agreement}."
        yield from check_min(1, max_row_mb=self.max_row_mb, max_unpacked=self.max_unpacked)


DEFAULTS = DataConfig()
