"""What one part of an audit found."""

from dataclasses import dataclass
from typing import Literal, get_args

Found = Literal["holds", "broken", "look here", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one part of the audit found."""

    name: str
    found: Found
    says: str
    """The finding, in a plain sentence."""
    evidence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.found not in get_args(Found):
            raise ValueError(
                f"The verdict on {self.name!r} is {self.found!r}; verdicts are: {', '.join(get_args(Found))}."
            )
