"""Where the parts of an example stand in the data, and how the data is read."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fresh.config import check_min, raise_all
from fresh.data.readers import LIMITS, ReadLimits

Format = Literal["auto", "table", "label_studio", "doccano", "prodigy", "potato", "eraser"]


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where the parts of an example stand in the data."""

    text: str = "text"
    """Column with the text; "document" if there is no column "text"."""
    label: str = "label"
    """Column with the label."""
    query: str = "query"
    """Column with what is asked about the text, where there is one."""
    id: str = "id"
    """Column with a name for each row, where there is one."""
    rationale: str = "rationale"
    """Column with what people marked: pairs of start and end, in characters, or in words for tokenised text."""
    tokenised: bool = False
    """The text was split into words before: take it apart at white space only."""
    dev: str = ""
    """File with the examples for choosing the best epoch; cut off from the data if there is none."""
    test: str = ""
    """File with the examples for the final numbers; cut off from the data if there is none."""
    dev_share: float = 0.1
    """Share of the rows to cut off for dev."""
    test_share: float = 0.1
    """Share of the rows to cut off for test."""
    skip_bad: bool = False
    """Leave out rows that cannot be used, and count them."""
    format: Format = "auto"
    """What the data is: a table, what an annotation tool exported (label_studio, doccano, prodigy, potato), an eraser
    corpus, or auto: what it looks like."""
    agreement: float = 0.5
    """Share of a document's annotators who must have marked a word, where a tool had several; at least one."""
    max_row_mb: int = LIMITS.row_mb
    """Largest row, in megabytes; a file with a larger one is refused."""
    max_unpacked: int = LIMITS.unpacked
    """Most that a packed file may unpack to, as a multiple of its size; 16 MB are always allowed."""

    def __post_init__(self) -> None:
        too_low = check_min(1, max_row_mb=self.max_row_mb, max_unpacked=self.max_unpacked)
        raise_all(*self.wrong_columns(), *self.wrong_shares(), self.wrong_agreement(), *too_low)

    @property
    def limits(self) -> ReadLimits:
        """How large the data may be."""
        return ReadLimits(self.max_row_mb, self.max_unpacked)

    def wrong_columns(self) -> Iterator[str]:
        """Say which columns are not named, or named twice."""
        named = [(name, getattr(self, name)) for name in ("text", "label", "query", "id", "rationale")]
        for name, column in named:
            if not column and name in ("text", "label"):
                yield f"{name} must name a column, got {column!r}."
        for (name, column), (other, same) in itertools.combinations(named, 2):
            if column and column == same:
                yield f"{name} and {other} both name the column {column!r}. Give each its own."

    def wrong_shares(self) -> Iterator[str]:
        """Say which shares leave a split empty."""
        shares = {"dev_share": self.dev_share, "test_share": self.test_share}
        wrong = [
            f"{name} must lie between 0 and 1, got {share}." for name, share in shares.items() if not 0 < share < 1
        ]
        yield from wrong
        if not wrong and sum(shares.values()) >= 1:
            given = f"{self.dev_share} and {self.test_share}"
            yield f"dev_share and test_share must leave rows to train on, got {given}."

    def wrong_agreement(self) -> str | None:
        """Say what is wrong with the share of annotators."""
        return None if 0 <= self.agreement <= 1 else f"agreement must lie between 0 and 1, got {self.agreement}."
