"""All that a predictor reads and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

Words = tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Rationale:
    """The words that were kept, in reading order, and nothing about the others."""

    words: Words
    query: Words = ()
    id: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_words("words", self.words)
        check_words("query", self.query)
        check_text("id", self.id)


def exact_str(text: str) -> str:
    """Copy what a string holds, whatever a subclass of it, such as that of NumPy, says of itself."""
    return str.__str__(text) if isinstance(text, str) else text


def check_text(name: str, text: str) -> None:
    """Refuse anything but a string, in its exact type: a subclass could show other words than were read."""
    if type(text) is not str:
        raise TypeError(f"{name} must be a string, got {text!r:.80} of type {type(text).__name__}.")


def check_words(name: str, words: Words) -> None:
    """Refuse anything but a tuple of non-empty strings, in exact types.

    A subclass of `str` could show one word to a check and another to a tokenizer.
    """
    if type(words) is not tuple or not set(map(type, words)) <= {str} or "" in words:
        raise TypeError(f"{name} must be a tuple of non-empty strings, got {words!r:.80}.")


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """A label and how probable each label is."""

    label: str
    probabilities: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.label not in self.probabilities:
            raise ValueError(
                f"The label {self.label!r} has no probability; there are: {', '.join(self.probabilities)}."
            )
        object.__setattr__(self, "probabilities", MappingProxyType(dict(self.probabilities)))

    def __reduce__(self) -> tuple[type["Prediction"], tuple[str, dict[str, float]]]:
        return Prediction, (self.label, dict(self.probabilities))

    @property
    def probability(self) -> float:
        """How probable the label is."""
        return self.probabilities[self.label]
