"""Agreement between annotators, and permutation tests between conditions."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from typing import Literal

import krippendorff
import numpy as np
from numpy.typing import ArrayLike

from fresh.metrics.bootstrap import Interval, mean_interval, sum_by_text
from fresh.metrics.significance import N_PERMUTATIONS, NOISE, holm
from fresh.study.answers import MEASURES, Response, measure_items

Ratings = Sequence[Sequence[int]]
"""The answers to each item as numbers, in any order."""
Metric = Literal["nominal", "ordinal"]
MAX_EXACT = 14  # up to this many texts or people, the swap test enumerates all 16,384 swaps


def krippendorff_alpha(ratings: Ratings, metric: Metric = "nominal") -> float | None:
    """Compute Krippendorff's alpha: 1 for full agreement, 0 for agreement by chance.

    Items may have any number of answers; those with a single answer do not count (Krippendorff, 2011).

    :param metric: Distance between answers: nominal for labels, ordinal for ratings.
    :return: None if all answers are the same, or no item has two.
    """
    pairable = [item for item in ratings if len(item) > 1]
    values = sorted({answer for item in pairable for answer in item})
    if len(values) < 2:
        return None
    counts = np.array([[list(item).count(value) for value in values] for item in pairable])
    return float(krippendorff.alpha(value_counts=counts, value_domain=values, level_of_measurement=metric))


def fleiss_kappa(ratings: Ratings, n_raters: int) -> float | None:
    """Compute Fleiss' kappa (1971) over the items that have exactly this many answers.

    :return: None if all answers are the same, or no item has this many.
    """
    # By hand: statsmodels would bring pandas and patsy for this one function.
    if n_raters < 2:
        return None
    counts = [Counter(item) for item in ratings if len(item) == n_raters]
    pooled = sum(counts, Counter())
    if len(pooled) < 2:
        return None
    n_pairs = n_raters * (n_raters - 1)
    observed = sum(sum(n * (n - 1) for n in item.values()) / n_pairs for item in counts) / len(counts)
    expected = sum((n / pooled.total()) ** 2 for n in pooled.values())
    return (observed - expected) / (1 - expected)


def raw_agreement(ratings: Ratings) -> float | None:
    """Compute the mean share of an item's answers that are the most frequent one, as the paper reports.

    :return: None if no item has two answers.
    """
    shares = [max(Counter(item).values()) / len(item) for item in ratings if len(item) > 1]
    return sum(shares) / len(shares) if shares else None


def chance_agreement(n_raters: int, probabilities: Sequence[float]) -> float:
    """Compute the expected raw agreement of random answers: 3/4 for 3 people and 2 equally likely labels.

    :param probabilities: The probability of each answer.
    """
    # The multinomial distribution: each multiset of labels, with the number of its orders.
    total = 0.0
    for labels in combinations_with_replacement(range(len(probabilities)), n_raters):
        counts = Counter(labels).values()
        n_orders = math.factorial(n_raters) / math.prod(map(math.factorial, counts))
        total += n_orders * math.prod(probabilities[label] for label in labels) * max(counts) / n_raters
    return total


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two conditions in one measure, over the documents with answers in both."""

    measure: str
    first: str
    second: str
    n_documents: int
    difference: Interval  # mean of the first minus mean of the second, over documents
    p_documents: float  # swap test within texts
    p_annotators: float | None  # swap test within people; None if nobody has seen both conditions
    p: float  # the larger of the two: what holds for other texts and for other people
    adjusted: float = 1.0  # after Holm's correction for all tests


def swap_test(differences: ArrayLike, seed: int = 0) -> float:
    """Compute how often random signs give a sum of differences at least as large, in either direction.

    :param differences: One for each text, or for each person.
    """
    # Not scipy.stats.permutation_test: it draws other signs, so that published p values would change.
    row = np.asarray(differences, dtype=np.float64)
    row = row[np.abs(row) > NOISE]  # a sign changes nothing where the difference is zero
    observed = abs(float(row.sum())) - NOISE
    if len(row) <= MAX_EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=len(row))))
        return float((np.abs(signs @ row) >= observed).mean())
    generator = np.random.default_rng(seed)
    signs = generator.choice((1.0, -1.0), size=(N_PERMUTATIONS, len(row)))
    # The observed signs count as one of the permutations, so that p is never 0.
    return (1 + int((np.abs(signs @ row) >= observed).sum())) / (1 + N_PERMUTATIONS)


def compare_conditions(responses: Sequence[Response], conditions: Sequence[str], seed: int = 0) -> list[Difference]:
    """Test each pair of conditions in each measure; pairs without a common document are left out."""
    differences: list[Difference] = []
    texts = {response.document: response.text for response in responses}
    for measure in MEASURES:
        by_document, answers = measure_items(responses, measure), defaultdict[tuple[str, int], list[float]](list)
        for response in responses:
            answers[response.condition, response.annotator].append(response.value(measure))
        by_annotator = {key: float(np.mean(values)) for key, values in answers.items()}
        for one, two in combinations(conditions, 2):
            gaps, person_gaps = _subtract(by_document, one, two), _subtract(by_annotator, one, two)
            if not gaps:
                continue
            row, numbers = np.array(list(gaps.values())), np.array([texts[document] for document in gaps])
            p_documents = swap_test(sum_by_text(row, numbers), seed)
            p_annotators = swap_test(list(person_gaps.values()), seed) if person_gaps else None
            interval = mean_interval(row, seed=seed, texts=numbers)
            p = max(p_documents, p_annotators or 0.0)
            differences.append(Difference(measure, one, two, len(gaps), interval, p_documents, p_annotators, p))
    adjusted = holm({str(number): item.p for number, item in enumerate(differences)})
    return [replace(item, adjusted=one.adjusted) for item, one in zip(differences, adjusted, strict=True)]


def _subtract(values: Mapping[tuple[str, int], float], one: str, two: str) -> dict[int, float]:
    """Subtract the second condition from the first, for each number that has values in both."""
    numbers = sorted(number for name, number in values if name == one and (two, number) in values)
    return {number: values[one, number] - values[two, number] for number in numbers}
