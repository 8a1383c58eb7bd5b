"""Replay: answers are computed again from rationales alone, and must be those that were reported."""

import json
from collections.abc import Sequence

import numpy as np

from fresh.document import Explanation
from fresh.predictor import Predictor
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE
from fresh.reporting.verdict import Verdict

MOST_SHOWN = 3
"""Counterexamples that are shown whole; all are counted."""
ROUNDING = 1e-4
"""How far probabilities may be apart when rationales are read in other company: sums are then rounded otherwise."""
ANOTHER_GROUPING = (
    "All differences are as small as those of rounding: answers differ so where documents were explained in other "
    "groups. Explain them with explain_stream, in the order in which they are audited, or let the audit explain them."
)


def replay(predictor: Predictor, explained: Sequence[Explanation], seed: int = 0) -> Verdict:
    """Have the predictor answer again, from nothing but the words of the rationales and the queries.

    :param explained: What was reported, in the groups of ``explain_stream``.
    :param seed: Draws the order in which all are read once more.
    """
    rationales = [read_back(write_down(item.rationale)) for item in explained]
    again: list[Prediction] = []
    for start in range(0, len(rationales), BATCH_SIZE):  # in the same company, so that sums are rounded the same way
        again += predictor.predict(rationales[start : start + BATCH_SIZE])
    pairs = list(zip(explained, again, strict=True))
    wrong = [(item, answer) for item, answer in pairs if item.prediction != answer]
    if wrong:
        return _differing(wrong, len(explained))
    apart = _in_other_company(predictor, rationales, again, seed)
    evidence = (
        f"{len(explained):,} predictions computed again, 0 differ.",
        f"Read once more in another order: probabilities are at most {apart:.1e} apart.",
    )
    if apart > ROUNDING:
        says = "Answers are not made from the rationale alone: they depend on what else is read before or beside it."
        return Verdict("replay", "broken", says, evidence)
    says = (
        f"All {len(explained):,} predictions, computed again from the words of their rationales alone, equal those "
        "reported, bit for bit."
    )
    return Verdict("replay", "holds", says, evidence)


def write_down(rationale: Rationale) -> str:
    """Write the words and the query as plain data; the id stays behind."""
    return json.dumps({"words": rationale.words, "query": rationale.query}, ensure_ascii=False)


def read_back(line: str) -> Rationale:
    """Read a rationale from plain data."""
    record = json.loads(line)
    return Rationale(tuple(record["words"]), tuple(record["query"]))


def _in_other_company(
    predictor: Predictor, rationales: Sequence[Rationale], answers: Sequence[Prediction], seed: int
) -> float:
    """Say how far answers are apart from those to the same rationales in another order."""
    order = np.random.default_rng(seed).permutation(len(rationales)).tolist()
    shuffled = predictor.predict([rationales[place] for place in order])
    return max(_distance(answers[place], answer) for place, answer in zip(order, shuffled, strict=True))


def _differing(wrong: Sequence[tuple[Explanation, Prediction]], n_explained: int) -> Verdict:
    """Say which predictions are not made from their rationales."""
    lines = [f"{n_explained:,} predictions computed again, {len(wrong):,} differ."]
    apart = [_distance(item.prediction, answer) for item, answer in wrong]
    lines.append(f"The largest difference of a probability is {max(apart):.1e}.")
    if max(apart) <= ROUNDING:
        lines.append(ANOTHER_GROUPING)
    for item, answer in wrong[:MOST_SHOWN]:
        lines += [
            f"document {item.document.id!r}, rationale: {' '.join(item.rationale.words)}",
            *([f"  query: {' '.join(item.document.query)}"] if item.document.query else []),
            f"  reported: {figures(item.prediction)}",
            f"  from the rationale alone: {figures(answer)}",
        ]
    says = (
        f"{len(wrong):,} of {n_explained:,} predictions, computed again from the words of their rationales alone, "
        "differ from those reported."
    )
    return Verdict("replay", "broken", says, tuple(lines))


def _distance(first: Prediction, second: Prediction) -> float:
    """Take the largest difference of a probability; 1 where other labels are answered."""
    if first.probabilities.keys() != second.probabilities.keys():
        return 1.0
    return max(abs(value - second.probabilities[label]) for label, value in first.probabilities.items())


def figures(prediction: Prediction) -> str:
    """Write all probabilities out, to the last bit."""
    shown = ", ".join(f"{label} {value!r}" for label, value in prediction.probabilities.items())
    return f"{prediction.label} ({shown})"
