"""Explanations as a file of results that the scorer of the ERASER benchmark reads (DeYoung et al., 2020)."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fresh._io import write_text
from fresh.document import Explanation, Mask
from fresh.metrics.faithfulness import Readings

# The id of an annotation that asks one of many questions about a text: name of the text, question, answer.
NUMBERED_ID = re.compile(r"(?P<docid>.+):\d+:\d+", re.DOTALL)


def write_results(
    path: Path,
    explanations: Sequence[Explanation],
    readings: Readings | None = None,
    by_ratio: Mapping[float, Readings] | None = None,
) -> None:
    """Write one line of JSON for each explanation, all of them or none.

    The scorer measures faithfulness from the prediction in the file, which is that of the explanation. So that its
    figures are those of `fresh.metrics.faithfulness`, readings must have these predictions as their full ones.

    :param readings: Predictions from rationales and from their complements, in the order of the explanations.
    :param by_ratio: The same at several lengths; the scorer needs ``readings`` too then.
    """
    by_ratio = by_ratio or {}
    _check(explanations, readings, by_ratio)  # what the scorer would refuse
    lines: list[str] = []
    for number, explanation in enumerate(explanations):
        document, saliency = explanation.document, explanation.saliency
        numbered = NUMBERED_ID.fullmatch(document.id)
        # A document that was read from ERASER's own files names its texts.
        docids = [docid for docid, _ in document.parts] or [numbered["docid"] if numbered else document.id]
        result: dict[str, Any] = {
            "annotation_id": document.id,
            "rationales": [],
            "classification": explanation.prediction.label,
            "classification_scores": dict(explanation.prediction.probabilities),
        }
        # A run that spans two texts is split.
        for docid, (first, after) in zip(docids, document.part_ranges, strict=True):
            spans = Mask(explanation.mask.kept[first:after]).spans
            soft = {} if saliency is None else {"soft_rationale_predictions": saliency.scores[first:after].tolist()}
            hard = [{"start_token": start, "end_token": end} for start, end in spans]
            result["rationales"].append({"docid": docid, "hard_rationale_predictions": hard, **soft})
        if readings is not None:
            result |= _scores(readings, number)
        if by_ratio:
            several = [{"threshold": ratio, **_scores(by_ratio[ratio], number)} for ratio in sorted(by_ratio)]
            result["thresholded_scores"] = several
        lines.append(json.dumps(result) + "\n")
    write_text(path, "".join(lines))


def _scores(readings: Readings, number: int) -> dict[str, dict[str, float]]:
    return {
        "sufficiency_classification_scores": dict(readings.rationales[number].probabilities),
        "comprehensiveness_classification_scores": dict(readings.complements[number].probabilities),
    }


def _check(explanations: Sequence[Explanation], readings: Readings | None, by_ratio: Mapping[float, Readings]) -> None:
    if not explanations:
        raise ValueError("explanations must have at least one item to write.")
    [(id, count)] = Counter(explanation.document.id for explanation in explanations).most_common(1)
    if count > 1:
        raise ValueError(f"ERASER needs unique ids, but {id!r} occurs {count} times.")
    scored = [explanation.saliency is not None for explanation in explanations]
    if any(scored) and not all(scored):
        without = explanations[scored.index(False)].document.id
        raise ValueError(f"ERASER needs scores for all documents or for none, but {without!r} has none and others do.")
    if by_ratio and readings is None:
        raise ValueError("by_ratio needs readings: ERASER reads several lengths only beside one length.")
    for read in (readings, *by_ratio.values()):
        if read is not None and len(read.full) != len(explanations):
            raise ValueError(f"readings must have {len(explanations)} items, one an explanation, got {len(read.full)}.")
