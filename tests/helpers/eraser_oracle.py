"""A second scorer of ERASER files, in plain Python, from the benchmark's definitions (DeYoung et al., 2020).

It shares no code with the library, counts sets of words where the library counts numbers, and knows files only.
"""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

Key = tuple[str, str]  # annotation and text: what ERASER calls an instance
Marks = dict[Key, set[tuple[int, int]]]
Row = dict[str, Any]

FAITHFUL = ("sufficiency", "comprehensiveness")


def score_files(corpus: Path, split: str, results: Path, least: float = 0.5) -> dict[str, Any]:
    """Score a file of results against the annotations of a corpus."""
    annotations, found = read_lines(corpus / f"{split}.jsonl"), read_lines(results)
    truth = marks_of(
        (row["annotation_id"], span["docid"], span)
        for row in annotations
        for group in row["evidences"]
        for span in group
    )
    predicted = marks_of(
        (row["annotation_id"], part["docid"], span)
        for row in found
        for part in row["rationales"]
        for span in part["hard_rationale_predictions"]
    )
    scores: dict[str, Any] = {"iou": score_spans(truth, predicted, least), "token": score_words(truth, predicted)}
    if all("soft_rationale_predictions" in part for row in found for part in row["rationales"]):
        docids = {part["docid"] for row in found for part in row["rationales"]}
        scores["auprc"] = score_soft(truth, found, {docid: count_words(corpus, docid) for docid in docids})
    answers = {row["annotation_id"]: row["classification"] for row in found}
    right = [row["classification"] == answers[row["annotation_id"]] for row in annotations]
    scores["accuracy"] = sum(right) / len(right)
    for name in FAITHFUL:
        if all("thresholded_scores" in row for row in found):
            scores[name] = [drop(row, row, name) for row in found]
            scores[f"{name}_aopc"] = [
                mean([drop(row, read, name) for read in row["thresholded_scores"]]) for row in found
            ]
    return scores


def read_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def count_words(corpus: Path, docid: str) -> int:
    """Count the words between single spaces in the lines of a text."""
    lines = (corpus / "docs" / docid).read_text(encoding="utf-8").split("\n")
    return sum(1 for line in lines for word in line.strip().split(" ") if word)


def marks_of(spans: Iterable[tuple[str, str, Row]]) -> Marks:
    """Collect spans by annotation and text."""
    marks: Marks = {}
    for annotation, docid, span in spans:
        marks.setdefault((annotation, docid), set()).add((span["start_token"], span["end_token"]))
    return marks


def words_of(marks: Marks) -> dict[Key, set[int]]:
    """Collect the words of spans; drop instances without a word."""
    words = {key: {word for span in spans for word in range(*span)} for key, spans in marks.items()}
    return {key: found for key, found in words.items() if found}


def f1(precision: float, recall: float) -> float:
    return 0.0 if precision == 0 or recall == 0 else 2 * precision * recall / (precision + recall)


def over(some: float, all_of_it: float) -> float:
    return some / all_of_it if all_of_it else 0.0


def mean(values: Sequence[float]) -> float:
    return over(math.fsum(values), len(values))


def score_words(truth: Marks, predicted: Marks) -> dict[str, list[float]]:
    """Score words: means over the instances of either side, and all words together."""
    wanted, kept = words_of(truth), words_of(predicted)
    each: list[tuple[float, float, float]] = []
    for key in wanted.keys() | kept.keys():
        gold, found = wanted.get(key, set()), kept.get(key, set())
        precision, recall = over(len(gold & found), len(found)), over(len(gold & found), len(gold))
        each.append((precision, recall, f1(precision, recall)))
    n_both = sum(len(wanted[key] & kept[key]) for key in wanted.keys() & kept.keys())
    precision = over(n_both, sum(map(len, kept.values())))
    recall = over(n_both, sum(map(len, wanted.values())))
    macro = [mean([scores[place] for scores in each]) for place in range(3)]
    return {"macro": macro, "micro": [precision, recall, f1(precision, recall)]}


def score_spans(truth: Marks, predicted: Marks, least: float) -> dict[str, list[float]]:
    """Score partial matches of spans; the macro F1 is that of mean precision and mean recall."""
    hits = {
        key: sum(max((overlap(span, gold) for gold in truth.get(key, ())), default=0.0) >= least for span in spans)
        for key, spans in predicted.items()
    }
    precision = mean([hits[key] / len(spans) for key, spans in predicted.items()])
    recall = mean([hits.get(key, 0) / len(spans) for key, spans in truth.items()])
    n_hits = sum(hits.values())
    all_precision = over(n_hits, sum(map(len, predicted.values())))
    all_recall = over(n_hits, sum(map(len, truth.values())))
    micro = [all_precision, all_recall, f1(all_precision, all_recall)]
    return {"macro": [precision, recall, f1(precision, recall)], "micro": micro}


def overlap(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Intersection over union of two spans."""
    mine, theirs = set(range(*one)), set(range(*other))
    return over(len(mine & theirs), len(mine | theirs))


def score_soft(truth: Marks, results: Iterable[Row], lengths: dict[str, int]) -> list[float]:
    """Area under the precision-recall curve of each instance; nan without marks, as in ERASER's own libraries."""
    areas: list[float] = []
    for row in results:
        for part in row["rationales"]:
            scores = part["soft_rationale_predictions"]
            assert len(scores) == lengths[part["docid"]]
            spans = truth.get((row["annotation_id"], part["docid"]), set())
            areas.append(area({word for span in spans for word in range(*span)}, scores))
    return areas


def area(gold: set[int], scores: Sequence[float]) -> float:
    """Sum trapezoids between neighboring thresholds, from precision 1 at recall 0."""
    if not gold:
        return math.nan
    points = [(0.0, 1.0)]
    groups: dict[float, list[int]] = {}
    for word, score in enumerate(scores):
        groups.setdefault(score, []).append(word)
    n_found = n_read = 0
    for score in sorted(groups, reverse=True):
        n_read += len(groups[score])
        n_found += len(gold.intersection(groups[score]))
        points.append((n_found / len(gold), n_found / n_read))
    return math.fsum((right - left) * (high + low) / 2 for (left, high), (right, low) in pairwise(points))


def drop(row: Row, read: Row, name: str) -> float:
    """Compute how much less probable the label is in another reading."""
    label = row["classification"]
    return float(row["classification_scores"][label] - read[f"{name}_classification_scores"][label])
