"""Explanations as a file of results that the scorer of the ERASER benchmark reads (DeYoung et al., 2020)."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fresh._io import write_text
from fresh.document import Document, Explanation, Mask
from fresh.metrics.faithfulness import Readings
from fresh.rationale import Prediction

NUMBERED = re.compile(r"(?P<docid>.+):\d+:\d+", re.DOTALL)
"""Ids of annotations that ask many questions about one text: its name, the question, the answer."""


def write_results(
    path: Path,
    explanations: Sequence[Explanation],
    readings: Readings | None = None,
    by_ratio: Mapping[float, Readings] | None = None,
) -> None:
    """Write one line of JSON for each explanation, all of them or none.

    The answer written is that of the explanation, and the scorer measures from it: for the figures of
    `fresh.metrics.faithfulness`, readings must have these answers as their full ones.

    :param readings: Predictions from rationales and from all but them, in the order of the explanations.
    :param by_ratio: The same at several lengths; the scorer wants ``readings`` too then.
    """
    lines = [json.dumps(result) for result in _results(explanations, readings, by_ratio or {})]
    write_text(path, "\n".join([*lines, ""]))


def _results(
    explanations: Sequence[Explanation], readings: Readings | None, by_ratio: Mapping[float, Readings]
) -> Iterator[dict[str, Any]]:
    """Make the object that stands for each explanation."""
    _check(explanations, readings, by_ratio)
    for number, explanation in enumerate(explanations):
        yield {
            "annotation_id": explanation.document.id,
            "rationales": list(_rationales_of(explanation)),
            "classification": explanation.prediction.label,
            "classification_scores": dict(explanation.prediction.probabilities),
            **({} if readings is None else _scores_of(readings, number)),
            **({"thresholded_scores": list(_at_ratios(by_ratio, number))} if by_ratio else {}),
        }


def _rationales_of(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """Say what was kept in each text that a document was joined from; a run of words that spans two is cut in two."""
    document, saliency = explanation.document, explanation.saliency
    for docid, (first, after) in zip(_docids_of(document), document.part_ranges, strict=True):
        spans = Mask(explanation.mask.kept[first:after]).spans
        soft = {} if saliency is None else {"soft_rationale_predictions": saliency.scores[first:after].tolist()}
        hard = [{"start_token": start, "end_token": end} for start, end in spans]
        yield {"docid": docid, "hard_rationale_predictions": hard, **soft}


def _docids_of(document: Document) -> list[str]:
    """Name the texts that a document was joined from.

    Documents read from ERASER's own files know them. Any other is named by its id, less the numbers of question and
    answer where it ends in both.
    """
    if document.parts:
        return [docid for docid, _ in document.parts]
    numbered = NUMBERED.fullmatch(document.id)
    return [numbered["docid"] if numbered else document.id]


def _scores_of(readings: Readings, number: int) -> dict[str, dict[str, float]]:
    """Write what was predicted from the rationale of a document, and from all but it."""
    named: dict[str, Sequence[Prediction]] = {
        "sufficiency_classification_scores": readings.rationales,
        "comprehensiveness_classification_scores": readings.complements,
    }
    return {name: dict(predictions[number].probabilities) for name, predictions in named.items()}


def _at_ratios(by_ratio: Mapping[float, Readings], number: int) -> Iterator[dict[str, Any]]:
    """Write what was predicted for a document at each length."""
    for ratio in sorted(by_ratio):
        yield {"threshold": ratio, **_scores_of(by_ratio[ratio], number)}


def _check(explanations: Sequence[Explanation], readings: Readings | None, by_ratio: Mapping[float, Readings]) -> None:
    """Refuse what the scorer would refuse."""
    if not explanations:
        raise ValueError("There are no explanations to write. Give at least one.")
    ids = Counter(explanation.document.id for explanation in explanations)
    twice = next((id for id, count in ids.items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"The id {twice!r} comes {ids[twice]} times, but ERASER needs one result for each id.")
    scored = [explanation.saliency is not None for explanation in explanations]
    if any(scored) and not all(scored):
        without = explanations[scored.index(False)].document.id
        raise ValueError(
            f"Document {without!r} has no scores but others have. ERASER needs scores for all or for none."
        )
    if by_ratio and readings is None:
        raise ValueError("ERASER takes readings at several lengths only with those at one length. Give both.")
    for given in (*by_ratio.values(), *([] if readings is None else [readings])):
        if len(given.full) != len(explanations):
            raise ValueError(
                f"There are {len(explanations)} explanations but readings of {len(given.full)} documents. "
                "Give one each."
            )
