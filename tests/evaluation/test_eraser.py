import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fresh.document import Document, Explanation, Mask, Saliency
from fresh.evaluation.eraser import write_results
from fresh.metrics.faithfulness import Readings
from fresh.rationale import Prediction

SURE, UNSURE = Prediction("POS", {"NEG": 0.1, "POS": 0.9}), Prediction("NEG", {"NEG": 0.5, "POS": 0.5})


def document(words: str, id: str, joined: tuple[tuple[str, int], ...] = ()) -> Document:
    plain = Document.from_words(words.split(), id=id)
    return Document(plain.text, plain.words, plain.spans, id=id, parts=joined)


def explained(item: Document, *spans: tuple[int, int], scores: list[float] | None = None) -> Explanation:
    saliency = None if scores is None else Saliency(np.array(scores), "POS")
    mask = Mask.from_spans(spans, len(item.words))
    return Explanation(item, mask, item.cut(mask), SURE, saliency)


FILM = explained(document("a good film .", "film.txt"), (1, 3), scores=[0.125, 1 / 3, 2, 0])


def written(path: Path, *arguments: Any) -> list[dict[str, Any]]:
    write_results(path / "results.jsonl", *arguments)
    assert [item.name for item in path.iterdir()] == ["results.jsonl"]
    return [json.loads(line) for line in (path / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_joined_texts_are_taken_apart(tmp_path: Path) -> None:
    two = document("a good film . or so", "ask:7", (("x/a.txt", 4), ("b.txt", 2)))
    [result] = written(tmp_path, [explained(two, (0, 1), (2, 6), scores=[1, 2, 3, 0.125, 1 / 3, 6])])
    first, middle, last = ({"start_token": start, "end_token": end} for start, end in ((0, 1), (2, 4), (0, 2)))
    names = ("docid", "hard_rationale_predictions", "soft_rationale_predictions")
    assert result == {
        "annotation_id": "ask:7",
        "rationales": [
            dict(zip(names, ("x/a.txt", [first, middle], [1, 2, 3, 0.125]), strict=True)),
            dict(zip(names, ("b.txt", [last], [1 / 3, 6]), strict=True)),
        ],
        "classification": "POS",
        "classification_scores": {"NEG": 0.1, "POS": 0.9},
    }


@pytest.mark.parametrize(
    ("id", "docid"),
    [("a.txt", "a.txt"), ("a.txt:0:12", "a.txt"), ("b:c:0:1", "b:c"), ("a:1", "a:1"), ("a:x:1", "a:x:1"), ("", "")],
)
def test_a_text_that_was_not_joined_is_named_by_its_id(id: str, docid: str, tmp_path: Path) -> None:
    [result] = written(tmp_path, [explained(document("a film", id))])
    assert result["rationales"] == [{"docid": docid, "hard_rationale_predictions": []}]


def test_other_readings_stand_beside_the_answer(tmp_path: Path) -> None:
    readings = Readings([SURE], [SURE], [UNSURE])
    [result] = written(tmp_path, [FILM], readings, {0.5: readings, 0.01: Readings([SURE], [UNSURE], [SURE])})
    sure, unsure = {"NEG": 0.1, "POS": 0.9}, {"NEG": 0.5, "POS": 0.5}
    assert result["sufficiency_classification_scores"] == sure
    assert result["comprehensiveness_classification_scores"] == unsure
    names = ("threshold", "sufficiency_classification_scores", "comprehensiveness_classification_scores")
    assert result["thresholded_scores"] == [
        dict(zip(names, (0.01, unsure, sure), strict=True)),
        dict(zip(names, (0.5, sure, unsure), strict=True)),
    ]


READ = Readings([SURE], [SURE], [SURE])


@pytest.mark.parametrize(
    ("explanations", "more", "message"),
    [
        ([], (), r"at least one item"),
        ([FILM, FILM], (), r"unique ids.*'film\.txt' occurs 2 times"),
        ([FILM, explained(document("a", "b"))], (), r"scores for all documents or for none.*'b'"),
        ([FILM], (None, {0.5: READ}), r"by_ratio needs readings"),
        (
            [FILM],
            (Readings([SURE] * 2, [SURE] * 2, [SURE] * 2),),
            r"readings must have 1 items, one an explanation, got 2",
        ),
    ],
)
def test_what_eraser_would_refuse_is_refused(
    tmp_path: Path, explanations: list[Explanation], more: tuple[Any, ...], message: str
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        write_results(path, explanations, *more)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
