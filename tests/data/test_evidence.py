import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fresh.data.corpora import CORPORA
from fresh.data.splits import DataConfig, load_splits, read_documents, read_examples
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.rationale import Prediction
from fresh.text import Spans

FILM = Document.from_words(["a", "good", "film", "."], id="d1")
DOCS = {"a.txt": "it was a good\nfilm .\n", "b.txt": "a dull bad film"}


def span(docid: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": docid, "start_token": start, "end_token": end}


def read(folder: Path, *groups: list[dict[str, Any]], **more: Any) -> Example:
    """Read one annotation of ERASER files."""
    (folder / "docs").mkdir()
    for name, text in DOCS.items():
        (folder / "docs" / name).write_text(text)
    rows = [
        {"annotation_id": f"{name}:0:{i}", "classification": label, "evidences": groups, "query": "?", **more}
        for i, (name, label) in enumerate([("a.txt", "POS"), ("b.txt", "NEG")])
    ]
    for split in ("train", "val", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_splits(folder, DataConfig(), seed=0).test[0]


# What people marked


def test_where_spans_are_not_known_the_mask_stands_in() -> None:
    mask = Mask.from_spans([(0, 1), (2, 4)], 4)
    assert Example(FILM, "pos", mask).evidence is None
    assert Example(FILM, "pos", mask).human_spans == ((0, 1), (2, 4))
    assert Example(FILM, "pos", mask, ((2, 3), (3, 4), (0, 1))).human_spans == ((2, 3), (3, 4), (0, 1))
    assert Example(FILM, "pos").human_spans is None
    assert Example(FILM, "pos", Mask.from_spans([], 4), ()).human_spans == ()


@pytest.mark.parametrize("wrong", [(-1, 1), (3, 5), (3, 2), (4, 4)])
def test_evidence_that_does_not_fit_is_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="evidence") as caught:
        Example(FILM, "pos", Mask.full(4), (wrong,))
    assert str(caught.value) == (
        f"The evidence span {wrong} does not fit document 'd1' of 4 words. "
        "Spans count words from 0 and exclude their end."
    )


@pytest.mark.parametrize("human", [None, Mask.full(4), Mask.from_spans([(1, 3)], 4)])
def test_evidence_and_mask_must_agree(human: Mask | None) -> None:
    with pytest.raises(ValueError, match="evidence") as caught:
        Example(FILM, "pos", human, ((1, 2),))
    assert str(caught.value) == (
        "The evidence and the human rationale of document 'd1' mark different words. Make both from the same spans."
    )


def test_rows_of_word_spans_keep_them_apart() -> None:
    row = {"text": "a good film .", "label": "pos", "rationale": [[2, 3], [0, 1], [1, 3], [0, 1]]}
    [example] = read_examples([row], DataConfig(tokenised=True))
    assert example.evidence == ((2, 3), (0, 1), (1, 3))
    assert example.human == Mask.from_spans([(0, 3)], 4)


def test_rows_of_character_spans_become_spans_of_words() -> None:
    row = {"text": "A good film.", "label": "pos", "rationale": [[0, 1], [2, 4], [4, 6], [6, 7], [7, 12]]}
    [example] = read_examples([row], DataConfig())
    assert example.evidence == ((0, 1), (1, 2), (2, 4))


def test_rows_that_do_not_say_have_no_evidence() -> None:
    unknown, nothing = read_examples(
        [{"text": "a", "label": "pos"}, {"text": "a", "label": "neg", "rationale": []}], DataConfig()
    )
    assert (unknown.evidence, nothing.evidence) == (None, ())


def test_eraser_spans_are_kept_as_given(tmp_path: Path) -> None:
    given = [[span("a.txt", 3, 5), span("a.txt", 2, 2)], [span("a.txt", 0, 1), span("a.txt", 1, 2)]]
    example = read(tmp_path, *given, [span("a.txt", 3, 5)], docids=["a.txt"])
    assert example.evidence == ((3, 5), (2, 2), (0, 1), (1, 2))
    assert example.human == Mask.from_spans([(0, 2), (3, 5)], 6)


@pytest.mark.parametrize(("start", "place"), [(-1, 0), (0, 0), (5, 5), (6, 5), (99, 5)])
def test_a_span_of_no_words_stays_inside_its_document(tmp_path: Path, start: int, place: int) -> None:
    assert read(tmp_path, [span("a.txt", start, start)]).evidence == ((place, place),)


def test_the_movies_corpus_keeps_evidence_when_it_drops_the_query(tmp_path: Path) -> None:
    read(tmp_path, [span("a.txt", 3, 4), span("a.txt", 4, 5)])
    example = CORPORA["movies"].read(tmp_path).test[0]
    assert (example.document.query, example.evidence) == ((), ((3, 4), (4, 5)))
    assert example.document.parts == (("a.txt", 6),)


def test_scores_of_another_document_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^There are 2 scores but document 'd1' has 4 words\.$"):
        Explanation(
            FILM, Mask.full(4), FILM.cut(Mask.full(4)), Prediction("pos", {"pos": 1.0}), Saliency(np.zeros(2), "pos")
        )


# Texts that were joined


@pytest.mark.parametrize(
    ("joined", "ranges"),
    [((), ((0, 4),)), ((("x", 4),), ((0, 4),)), ((("x", 1), ("y", 0), ("z", 3)), ((0, 1), (1, 1), (1, 4)))],
)
def test_a_document_knows_where_its_texts_stand(joined: tuple[tuple[str, int], ...], ranges: Spans) -> None:
    document = Document(FILM.text, FILM.words, FILM.spans, id="d1", parts=joined)
    assert document.part_ranges == ranges
    assert pickle.loads(pickle.dumps(document)) == document  # noqa: S301


def test_joined_texts_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="joined") as caught:
        Document(FILM.text, FILM.words, FILM.spans, id="d1", parts=(("x", 1), ("y", 2)))
    assert str(caught.value) == "Document 'd1' has 4 words, but the texts it was joined from have 3 together."


def test_eraser_documents_know_their_texts(tmp_path: Path) -> None:
    example = read(tmp_path, [span("b.txt", 1, 2), span("b.txt", 0, 0)], [span("a.txt", 5, 6)], docids=["a.txt"])
    assert example.document.parts == (("a.txt", 6), ("b.txt", 4))
    assert example.evidence == ((7, 8), (6, 6), (5, 6))


def test_documents_without_labels_know_their_texts_only_if_read_from_eraser() -> None:
    [document] = read_documents([{"text": "a film", "joined": "x"}], DataConfig())
    assert document.parts == ()
