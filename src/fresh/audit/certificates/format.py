"""What a certificate says: an answer, and all that it was made from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fresh._io import RecordError, canonical_sha256
from fresh.errors import CertificateError
from fresh.rationale import Prediction, Rationale

FORMAT = 1


class Maker(NamedTuple):
    """What made the answers."""

    predictor_sha256: str
    version: str
    """Of the library."""

    def record(self, kind: str) -> dict[str, Any]:
        """Begin a line of some kind: header, certificate or closing."""
        return {"kind": kind, "format": FORMAT, "library": "fresh", **self._asdict()}


@dataclass(frozen=True, slots=True)
class Certificate:
    """An answer, and all that it was made from."""

    rationale: Rationale
    pieces: tuple[int, ...]
    """What the network was given: the pieces of the rationale and of its query, special ones included."""
    prediction: Prediction
    group: int
    """Answers of one group were computed together."""

    def __post_init__(self) -> None:
        for label, probability in self.prediction.probabilities.items():
            if not (math.isfinite(probability) and 0 <= probability <= 1):
                raise CertificateError(
                    f"The probability of {label!r} for document {self.rationale.id!r} is {probability}, "
                    "which cannot be certified. Train the model again."
                )

    def record(self, maker: Maker) -> dict[str, Any]:
        """Turn it into plain values."""
        rationale, probabilities = self.rationale, self.prediction.probabilities
        given = {"words": list(rationale.words), "query": list(rationale.query), "pieces": list(self.pieces)}
        return maker.record("certificate") | {
            "id": rationale.id,
            "group": self.group,
            "input": given,
            "input_sha256": canonical_sha256(given),
            "label": self.prediction.label,
            "probabilities": [[label, repr(value)] for label, value in probabilities.items()],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Certificate":
        """Read it back; what is wrong is told as the reason why a line fails."""
        given, table = record["input"], record["probabilities"]
        if type(given) is not dict or given.keys() != {"words", "query", "pieces"}:
            raise RecordError("its input does not consist of words, query and pieces.")
        labels = [pair[0] for pair in table] if _is_list(table, _is_probability) else []
        sound = {
            "id": is_text(record["id"]),
            "group": is_count(record["group"]),
            "words": _is_list(given["words"], _is_word),
            "query": _is_list(given["query"], _is_word),
            "pieces": _is_list(given["pieces"], is_count),
            "probabilities": 0 < len(labels) == len(set(labels)),
            "label": record["label"] in labels,
        }
        for name, is_sound in sound.items():
            if not is_sound:
                raise RecordError(f"its {name} cannot be read.")
        if canonical_sha256(given) != record["input_sha256"]:
            raise RecordError("input_sha256 is not the digest of its input.")
        rationale = Rationale(tuple(given["words"]), tuple(given["query"]), record["id"])
        prediction = Prediction(record["label"], {label: float(value) for label, value in table})
        return cls(rationale, tuple(given["pieces"]), prediction, record["group"])


def is_text(value: object) -> bool:
    """Say whether a value is text."""
    return type(value) is str


def _is_word(value: object) -> bool:
    """Say whether a value is text of at least one character."""
    return is_text(value) and value != ""


def is_count(value: object) -> bool:
    """Say whether a value is a whole number, 0 or more."""
    return type(value) is int and value >= 0


def _is_list(value: object, is_sound: Callable[[Any], bool]) -> bool:
    """Say whether a value is a list of sound values."""
    return type(value) is list and all(map(is_sound, value))


def _is_probability(pair: Any) -> bool:
    """Say whether a value is a label and a probability, written as the shortest decimal that is read back the same."""
    if not _is_list(pair, is_text) or len(pair) != 2:
        return False
    try:
        value = float(pair[1])
    except ValueError:
        return False
    return 0 <= value <= 1 and repr(value) == pair[1]
