"""Answers on the paper's scales, and what the answers to one item amount to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fresh.config import raise_all

CONFIDENCE = ("not confident", "a little confident", "pretty confident", "very confident")
"""How sure somebody is of the label, from 1."""
READABILITY = ("very difficult", "difficult", "neutral", "easy", "very easy")
"""How easy the text is to read and understand, from 1."""
SCALES = {"confidence": CONFIDENCE, "readability": READABILITY}
SCALE_QUESTIONS = {
    "confidence": "How confident are you?",
    "readability": "How easy are the words to read and understand?",
}
"""As on our own pages and in other tools, so that answers are comparable."""
QUESTIONS = ("label", *SCALES)  # what is asked about each item
MEASURES = ("accuracy", *SCALES)
MAX_MILLISECONDS = 7 * 24 * 3600 * 1000  # a week: nobody reads one text for longer
MAX_DIGITS = 20  # more than any number of ours has; Python refuses to parse more than 4,300


@dataclass(frozen=True, slots=True)
class Answer:
    """A label, the ratings, and the time they took."""

    label: str
    confidence: int
    readability: int
    milliseconds: int = 0  # reading time; 0 if it was not measured

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number from 1 ({steps[0]}) to {len(steps)} ({steps[-1]}), got {rating!r}."
            for name, steps in SCALES.items()
            if type(rating := getattr(self, name)) is not int or not 1 <= rating <= len(steps)
        ]
        if type(self.milliseconds) is not int or not 0 <= self.milliseconds <= MAX_MILLISECONDS:
            limits = f"from 0 to {MAX_MILLISECONDS:,} (a week)"
            problems.append(f"milliseconds must be a whole number {limits}, got {self.milliseconds!r}.")
        raise_all(*problems)


def parse_whole(value: Any) -> Any:
    """Parse a whole number from text or a float; anything else stays as it is."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= MAX_DIGITS:
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def median_seconds(milliseconds: Iterable[int]) -> float | None:
    """Compute the median time of answers; None if no time was measured."""
    measured = [time for time in milliseconds if time]  # pages without scripts measure none, which is saved as 0
    return median(measured) / 1000 if measured else None


@dataclass(frozen=True, slots=True)
class Response:
    """One answer that counts, with everything that it is about."""

    annotator: int
    item: int
    document: int
    text: int  # number of the document's text; several documents may share one
    condition: str
    gold: str
    label: str
    confidence: int
    readability: int
    milliseconds: int = 0

    def value(self, measure: str) -> float:
        """Return one measure of this answer alone."""
        return float(self.label == self.gold) if measure == "accuracy" else float(getattr(self, measure))


def group_by_item(responses: Iterable[Response]) -> dict[tuple[str, int], list[Response]]:
    """Group answers by condition and document."""
    groups: dict[tuple[str, int], list[Response]] = {}
    for response in responses:
        groups.setdefault((response.condition, response.document), []).append(response)
    return groups


def majority_labels(labels: Sequence[str]) -> list[str]:
    """Return the most frequent label, or all of them if there is a tie."""
    counts = Counter(labels)
    return sorted(label for label, count in counts.items() if count == max(counts.values()))


def majority_score(labels: Sequence[str], gold: str) -> float:
    """Score a majority vote: 1 if it is right, 0 if not, and an even share of 1 if the right label is tied with others.

    The share is what drawing one of the tied labels at random scores on average.
    """
    tied = majority_labels(labels)
    return 1 / len(tied) if gold in tied else 0.0


def measure_items(responses: Iterable[Response], measure: str) -> dict[tuple[str, int], float]:
    """Measure each item: the score of its majority vote, or the mean of its ratings."""
    values: dict[tuple[str, int], float] = {}
    for key, group in group_by_item(responses).items():
        if measure == "accuracy":
            values[key] = majority_score([response.label for response in group], group[0].gold)
        else:
            values[key] = sum(response.value(measure) for response in group) / len(group)
    return values
