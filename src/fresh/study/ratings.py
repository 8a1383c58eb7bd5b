"""Answers to real items, and what an item's answers amount to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MEASURES = ("accuracy", "confidence", "readability")


@dataclass(frozen=True, slots=True)
class Response:
    """One answer that counts, with all that it is about."""

    annotator: int
    item: int
    document: int
    text: int
    """Number of the document's text; several documents may ask about one."""
    condition: str
    gold: str
    label: str
    confidence: int
    readability: int
    milliseconds: int = 0

    def value(self, measure: str) -> float:
        """Measure this answer alone."""
        return float(self.label == self.gold) if measure == "accuracy" else float(getattr(self, measure))


def by_item(responses: Iterable[Response]) -> dict[tuple[str, int], list[Response]]:
    """Put the answers to one document in one condition together."""
    found: dict[tuple[str, int], list[Response]] = {}
    for response in responses:
        found.setdefault((response.condition, response.document), []).append(response)
    return found


def majority(labels: Sequence[str]) -> list[str]:
    """Find the label that most chose; several where there is a tie."""
    counts = Counter(labels)
    return sorted(label for label, count in counts.items() if count == max(counts.values()))


def _majority_score(labels: Sequence[str], gold: str) -> float:
    """Score a majority vote: 1 if it is right, 0 if not.

    A tie is worth what drawing lots among the tied labels gets on average: an even share, if the right one is
    one of them.
    """
    tied = majority(labels)
    return 1 / len(tied) if gold in tied else 0.0


def item_values(responses: Iterable[Response], measure: str) -> dict[tuple[str, int], float]:
    """Measure each item: its majority vote, or the mean of its ratings."""
    values: dict[tuple[str, int], float] = {}
    for key, group in by_item(responses).items():
        if measure == "accuracy":
            values[key] = _majority_score([response.label for response in group], group[0].gold)
        else:
            values[key] = sum(response.value(measure) for response in group) / len(group)
    return values
