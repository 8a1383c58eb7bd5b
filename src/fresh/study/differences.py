"""Whether two conditions differ, or chance did it: permutation tests over documents and over people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from fresh.metrics.bootstrap import Interval, mean_interval, sum_by_text
from fresh.metrics.significance import N_PERMUTATIONS, NOISE, holm
from fresh.study.ratings import MEASURES, Response, item_values

Floats = NDArray[np.float64]
MOST_EXACT = 14
"""Up to so many texts or people, all swaps are tried."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two conditions in one measure, over the documents that both have answers for."""

    measure: str
    first: str
    second: str
    n_documents: int
    difference: Interval
    """Mean of the first less that of the second, with its interval over documents."""
    p_documents: float
    """How often swapping the two conditions within texts at random gives as large a difference."""
    p_annotators: float | None
    """The same for swapping within people; nothing where nobody has seen both conditions."""
    p: float
    """The larger of the two: what holds for other texts and for other people."""
    adjusted: float = 1.0
    """The same, corrected for the number of all tests, as Holm does."""


def _swap_test(differences: Sequence[float] | Floats, seed: int = 0) -> float:
    """Compute how often turning the signs of differences at random gives as large a sum, in either direction.

    :param differences: One for each text, or for each person.
    """
    row = np.asarray(differences, dtype=np.float64)
    row = row[np.abs(row) > NOISE]
    seen = abs(float(row.sum())) - NOISE
    if len(row) <= MOST_EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=len(row))))
        return float((np.abs(signs @ row) >= seen).mean())
    generator = np.random.default_rng(seed)
    signs = generator.choice((1.0, -1.0), size=(N_PERMUTATIONS, len(row)))
    return (1 + int((np.abs(signs @ row) >= seen).sum())) / (1 + N_PERMUTATIONS)


def compare_conditions(responses: Sequence[Response], conditions: Sequence[str], seed: int = 0) -> list[Difference]:
    """Test each pair of conditions in each measure; those without a document in common are left out."""
    found: list[Difference] = []
    texts = {response.document: response.text for response in responses}
    for measure in MEASURES:
        values = item_values(responses, measure)
        for one, two in combinations(conditions, 2):
            first, second = (_by_document(values, condition) for condition in (one, two))
            shared = sorted(first.keys() & second.keys())
            if shared:
                gaps = np.array([first[document] - second[document] for document in shared])
                numbers = np.array([texts[document] for document in shared], dtype=np.int64)
                found.append(
                    difference(measure, one, two, gaps, numbers, _person_gaps(responses, measure, one, two), seed)
                )
    adjusted = holm({str(number): item.p for number, item in enumerate(found)})
    return [replace(item, adjusted=one.adjusted) for item, one in zip(found, adjusted, strict=True)]


def difference(
    measure: str, one: str, two: str, gaps: Floats, texts: NDArray[np.int64], by_person: Sequence[float], seed: int
) -> Difference:
    """Test one pair of conditions."""
    p_documents = _swap_test(sum_by_text(gaps, texts), seed)
    p_annotators = _swap_test(by_person, seed) if by_person else None
    interval = mean_interval(gaps, seed=seed, texts=texts)
    p = max(p_documents, p_annotators or 0.0)
    return Difference(measure, one, two, len(gaps), interval, p_documents, p_annotators, p)


def _by_document(values: Mapping[tuple[str, int], float], condition: str) -> dict[int, float]:
    """Take the values of one condition."""
    return {document: value for (name, document), value in values.items() if name == condition}


def _person_gaps(responses: Sequence[Response], measure: str, one: str, two: str) -> list[float]:
    """Compute how much higher each person's mean is in the first condition, for those who have seen both."""
    sums: dict[int, dict[str, list[float]]] = {}
    for response in responses:
        if response.condition in (one, two):
            sums.setdefault(response.annotator, {}).setdefault(response.condition, []).append(response.value(measure))
    return [float(np.mean(means[one]) - np.mean(means[two])) for _, means in sorted(sums.items()) if len(means) == 2]
