"""Commands run in this process, as a user types them."""

from typing import NamedTuple, Protocol


class Shown(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line on standard error, after progress bars."""
        return (self.err.splitlines() or [""])[-1]


class Command(Protocol):
    def __call__(self, *arguments: object, status: int = 0) -> Shown: ...
