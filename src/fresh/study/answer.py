"""What a person answers about one text, on the paper's scales."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from fresh.config import raise_all
from fresh.errors import StudyError

CONFIDENCE = ("not confident", "a little confident", "pretty confident", "very confident")
"""How sure somebody is of the label, from 1."""
READABILITY = ("very difficult", "difficult", "neutral", "easy", "very easy")
"""How easy the text is to read and understand, from 1."""
SCALES = {"confidence": CONFIDENCE, "readability": READABILITY}
LONGEST = 7 * 24 * 3600 * 1000
"""A week in milliseconds: nobody reads one text for longer."""


class EndedError(StudyError):
    """Somebody does not take part any more."""


class PausedError(StudyError):
    """Nothing is given out for now."""


class NotGivenError(StudyError):
    """An answer to something that is not somebody's to answer."""


class RepeatedError(StudyError):
    """Something that was asked for once, and done, comes again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A label, how sure, how readable, and how long it took."""

    label: str
    confidence: int
    readability: int
    milliseconds: int = 0

    def __post_init__(self) -> None:
        raise_all(*self.wrong_scales(), self.wrong_time())

    def wrong_scales(self) -> Iterator[str]:
        """Say which scales were left."""
        for name, steps in SCALES.items():
            given = getattr(self, name)
            if type(given) is not int or not 1 <= given <= len(steps):
                yield (
                    f"{name} must be a whole number from 1 ({steps[0]}) to {len(steps)} ({steps[-1]}), got {given!r}."
                )

    def wrong_time(self) -> str | None:
        """Say what is wrong with the time."""
        if type(self.milliseconds) is int and 0 <= self.milliseconds <= LONGEST:
            return None
        return f"milliseconds must be a whole number from 0 to {LONGEST:,} (a week), got {self.milliseconds!r}."


def typical_seconds(milliseconds: Iterable[int]) -> float | None:
    """Compute the median time of answers; a page without scripts measures none, which is saved as 0."""
    measured = [time for time in milliseconds if time]
    return median(measured) / 1000 if measured else None
