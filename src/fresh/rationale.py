"""Everything that a predictor reads and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

Words = tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Rationale:
    """The words that were selected, in reading order, and nothing about the others."""

    words: Words
    query: Words = ()
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_words("words", self.words)
        check_words("query", self.query)
        check_text("id", self.id)


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """A label, and the probability of each label."""

    label: str
    probabilities: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.label not in self.probabilities:
            raise ValueError(f"Label {self.label!r} has no probability. There are: {', '.join(self.probabilities)}.")
        object.__setattr__(self, "probabilities", MappingProxyType(dict(self.probabilities)))

    def __reduce__(self) -> tuple[type["Prediction"], tuple[str, dict[str, float]]]:
        return Prediction, (self.label, dict(self.probabilities))  # a mapping proxy cannot be pickled

    @property
    def probability(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]


# A subclass of `str` could show one word to a check and another to a tokenizer, so only exact strings pass.


def exact_str(text: str) -> str:
    """Copy the content of a string, whatever a subclass, such as NumPy's, shows."""
    return str.__str__(text) if isinstance(text, str) else text


def check_text(name: str, text: str) -> None:
    """Raise for anything but an exact string."""
    if type(text) is not str:
        raise TypeError(f"{name} must be a string, got {text!r:.80} of type {type(text).__name__}.")


def check_words(name: str, words: Words) -> None:
    """Raise for anything but a tuple of non-empty exact strings."""
    if type(words) is not tuple or not set(map(type, words)) <= {str} or "" in words:
        raise TypeError(f"{name} must be a tuple of non-empty strings, got {words!r:.80}.")
