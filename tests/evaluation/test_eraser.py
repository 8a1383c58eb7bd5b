"""The file of results that we write, and our figures against those of a second scorer that reads it."""

import hashlib
import json
import math
import tarfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser_oracle import FAITHFUL, score_files
from fresh.data import DataConfig, load_splits
from fresh.document import Document, Explanation, Mask, Saliency
from fresh.evaluation.eraser import write_results
from fresh.metrics.classification import accuracy
from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, aopc, measure_faithfulness
from fresh.metrics.plausibility import Agreement, measure_agreement
from fresh.rationale import Prediction
from fresh.selection.discretizers import Contiguous, TopK

SURE, UNSURE = Prediction("POS", {"NEG": 0.1, "POS": 0.9}), Prediction("NEG", {"NEG": 0.5, "POS": 0.5})


def explain(
    document: Document, mask: Mask, scores: Sequence[float] | None = None, answer: Prediction = SURE
) -> Explanation:
    saliency = None if scores is None else Saliency(np.array(scores), "", document.id)
    return Explanation(document, mask, document.cut(mask), answer, saliency)


FILM = explain(Document.from_text("a good film.", id="film.txt"), Mask.from_spans([(1, 3)], 4), [0.125, 1 / 3, 2, 0])
BARE = explain(Document.from_words(["a"], id="b"), Mask.full(1))


def written(path: Path, *arguments: Any) -> list[dict[str, Any]]:
    write_results(path / "results.jsonl", *arguments)
    assert [item.name for item in path.iterdir()] == ["results.jsonl"]
    return [json.loads(line) for line in (path / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_joined_texts_are_taken_apart(tmp_path: Path) -> None:
    plain = Document.from_text("a good film. Or so", id="ask:7")
    two = replace(plain, parts=(("x/a.txt", 4), ("b.txt", 2)))
    [result] = written(tmp_path, [explain(two, Mask.from_spans([(0, 1), (2, 6)], 6), [1, 2, 3, 0.125, 1 / 3, 6])])
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
    [result] = written(tmp_path, [explain(Document.from_words(["film"], id=id), Mask.from_spans([], 1))])
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
        ([FILM, BARE], (), r"scores for all documents or for none.*'b'"),
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


# Figures of both scorers

Case = tuple[list[str], dict[str, Any], list[bool], list[float]]
"""The texts of an annotation, the annotation, and what a model kept and thought of every word."""


def prediction(key: str, labels: Sequence[str]) -> Prediction:
    """An answer that depends on the key alone."""
    parts = [byte + 1 for byte in hashlib.sha256(key.encode()).digest()[: len(labels)]]
    shares = {label: part / sum(parts) for label, part in zip(labels, parts, strict=True)}
    return Prediction(max(labels, key=lambda label: shares[label]), shares)


def check_figures(ours: Agreement, theirs: dict[str, Any]) -> None:
    for name in ("token", "iou"):
        for kind in ("macro", "micro"):
            score = asdict(getattr(ours, f"{name}_{kind}"))
            assert list(score.values()) == pytest.approx(theirs[name][kind], abs=1e-9)
    if "auprc" not in theirs:
        assert ours.auprc is None
        return
    assert ours.counts.auprc.tolist() == pytest.approx(theirs["auprc"], abs=1e-9, nan_ok=True)
    known = [area for area in theirs["auprc"] if not math.isnan(area)]
    assert ours.auprc == (pytest.approx(sum(known) / len(known), abs=1e-9) if known else None)


def read_all(name: str, explanations: Sequence[Explanation], labels: Sequence[str]) -> Readings:
    """Make up answers to the rationales and to what they leave."""
    ids = [explanation.document.id for explanation in explanations]
    rationales, complements = ([prediction(f"{name} {part} {id}", labels) for id in ids] for part in ("in", "out"))
    return Readings([explanation.prediction for explanation in explanations], rationales, complements)


# The published corpora


@pytest.fixture(scope="module", params=["movies", "multirc"])
def corpus(request: pytest.FixtureRequest, corpora_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eraser")
    with tarfile.open(corpora_dir / "eraser" / f"{request.param}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / str(request.param)


def cut_somehow(number: int, document: Document, labels: Sequence[str]) -> Explanation:
    """Choose words by a cheap rule: the best of hashed scores, a run of them, none, or all."""
    seed = int.from_bytes(hashlib.sha256(document.id.encode()).digest()[:4])
    n_words = len(document.words)
    scores = (np.arange(seed, seed + n_words) % 1009) ** 2 % 97 / 97  # full of ties
    masks = {8: Mask(np.zeros(n_words, dtype=np.bool_)), 9: Mask.full(n_words)}
    discretizer = TopK(0.3) if number % 2 else Contiguous(0.2)
    mask = masks.get(number % 10) or discretizer.select([Saliency(scores, "")])[0]
    return explain(document, mask, scores.tolist(), prediction(document.id, labels))


def test_published_corpora_get_the_same_figures(corpus: Path, tmp_path: Path) -> None:
    splits = load_splits(corpus, DataConfig(), seed=0)
    test, labels = splits.test, splits.labels
    explanations = [cut_somehow(i, example.document, labels) for i, example in enumerate(test)]
    readings = read_all("", explanations, labels)
    by_ratio = {ratio: read_all(str(ratio), explanations, labels) for ratio in AOPC_RATIOS}
    write_results(tmp_path / "results.jsonl", explanations, readings, by_ratio)
    theirs = score_files(corpus, "test", tmp_path / "results.jsonl")
    check_figures(measure_agreement(test, explanations), theirs)
    assert 0 < theirs["iou"]["macro"][2] < theirs["token"]["macro"][2] < 1
    answers = [explanation.prediction.label for explanation in explanations]
    assert accuracy([example.label for example in test], answers) == pytest.approx(theirs["accuracy"])
    for name in FAITHFUL:
        assert getattr(measure_faithfulness(readings), name).tolist() == pytest.approx(theirs[name], abs=1e-9)
        assert getattr(aopc(by_ratio).overall, name).tolist() == pytest.approx(theirs[f"{name}_aopc"], abs=1e-9)


# Small random cases


def spans(n_words: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Spans that touch, overlap, come twice, or hold no word."""
    one = st.tuples(st.integers(0, n_words), st.integers(0, n_words)).map(lambda pair: (min(pair), max(pair)))
    return st.lists(one.filter(lambda span: span[0] < n_words), max_size=4)


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Some annotations and what a model makes of them."""
    made = []
    for number in range(draw(st.integers(2, 5))):
        names = [f"{number}-{place}" for place in range(draw(st.sampled_from((1, 1, 1, 2))))]
        groups, lengths = [], [draw(st.integers(1, 7)) for _ in names]
        for name, n_words in zip(names, lengths, strict=True):
            found = draw(spans(n_words))
            groups.append([{"docid": name, "start_token": start, "end_token": end} for start, end in found])
        row = {"annotation_id": f"n{number}", "classification": "PN"[number % 2], "evidences": groups, "docids": names}
        n_all = sum(lengths)
        kept = draw(st.lists(st.booleans(), min_size=n_all, max_size=n_all))
        scores = draw(st.lists(st.sampled_from((-1.0, 0.0, 0.1, 0.5)), min_size=n_all, max_size=n_all))
        made.append(([" ".join("w" * n_words) for n_words in lengths], row, kept, scores))
    return made


@settings(max_examples=150)
@given(cases(), st.booleans(), st.sampled_from((0.1, 0.5, 2 / 3, 1.0)))
def test_small_cases_get_the_same_figures(made: list[Case], soft: bool, least: float) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        for texts, row, _, _ in made:
            for docid, text in zip(row["docids"], texts, strict=True):
                (folder / "docs" / docid).write_text(text)
        for split in ("train", "val", "test"):
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for _, row, _, _ in made))
        examples = load_splits(folder, DataConfig(), seed=0).test
        explanations = []
        for example, (_, _, kept, scores) in zip(examples, made, strict=True):
            answer = prediction(example.document.id, "NP")
            explanations.append(explain(example.document, Mask(np.array(kept)), scores if soft else None, answer))
        write_results(folder / "results.jsonl", explanations)
        theirs = score_files(folder, "test", folder / "results.jsonl", least)
        check_figures(measure_agreement(examples, explanations, least), theirs)
