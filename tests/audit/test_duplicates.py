import re
import time
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.audit.duplicates import MAX_PAIRS, DuplicatePair, Overlap, check_splits, find_duplicates, similar_texts
from fresh.data.corpora import CORPORA
from fresh.data.splits import Splits, dataset_digest
from fresh.document import Document, Example

FILL = ("nothing at all like the others here", "neg"), ("some other text of no concern to anyone", "pos")


def splits(**parts: list[tuple[str, str]]) -> Splits:
    """Make splits of texts and labels; a text may end in | and a query."""
    made = []
    for name in ("train", "dev", "test"):
        rows = parts.get(name) or [(text.replace(" ", f" {name} "), label) for text, label in FILL]
        made.append(
            tuple(
                Example(Document.from_tokenized(text.partition("|")[0], text.partition("|")[2], f"{name}_{i}"), label)
                for i, (text, label) in enumerate(rows)
            )
        )
    return Splits(*made)


def text(n_words: int, start: int = 0) -> str:
    return " ".join(f"w{number}" for number in range(start, start + n_words))


def test_clean_splits() -> None:
    found = find_duplicates(splits())
    assert found.n_pairs == 0
    assert found.pairs == ()
    assert [overlap.sentence for overlap in found.overlaps] == [
        "No example of dev has a duplicate or near-duplicate in train.",
        "No example of test has a duplicate or near-duplicate in train.",
        "No example of test has a duplicate or near-duplicate in dev.",
    ]


def test_duplicates_but_for_case_and_space() -> None:
    found = find_duplicates(
        splits(train=[("A  good film", "pos"), ("bad", "neg")], test=[("a GOOD\nfilm", "neg"), ("Bad", "neg")])
    )
    assert found.pairs == (
        DuplicatePair("train_0", "train", "test_0", "test", 1.0, exact=True, labels_differ=True),
        DuplicatePair("train_1", "train", "test_1", "test", 1.0, exact=True, labels_differ=False),
    )
    assert found.overlaps[1] == Overlap("train", "test", 2, 2, 0, 0, 2, 1)
    assert found.overlaps[1].sentence == (
        "Of 2 examples of test, 2 have a duplicate in train and 0 a near-duplicate (100.0% together). "
        "In 1 of 2 such pairs, the labels differ."
    )


def test_near_duplicates_from_the_threshold_on() -> None:
    """20 words are 18 runs. With 2 other words at the end 16 are left, of 20 in all; with 3, 15 of 21."""
    train = [(text(20), "pos"), FILL[0]]
    found = find_duplicates(splits(train=train, test=[(f"{text(18)} x y", "pos"), (f"{text(17)} x y z", "pos")]))
    assert found.pairs == (DuplicatePair("train_0", "train", "test_0", "test", 0.8, exact=False, labels_differ=False),)
    assert (found.overlaps[1].n_exact, found.overlaps[1].n_near) == (0, 1)
    found = find_duplicates(splits(train=train, test=[(f"{text(17)} x y z", "pos"), FILL[0]]), threshold=0.7)
    assert found.pairs[0].similarity == 1  # the filling, which both have
    assert found.pairs[1].similarity == pytest.approx(15 / 21)


@pytest.mark.parametrize("short", ["yes", "oh no", "so it goes"])
def test_short_texts_are_duplicates_or_nothing(short: str) -> None:
    train = [(short, "pos"), (f"{short} again", "neg")]
    found = find_duplicates(splits(train=train, test=[(short.upper(), "pos"), (f"well {short}", "pos")]))
    assert [(pair.first, pair.second, pair.exact) for pair in found.pairs] == [("train_0", "test_0", True)]


def test_duplicates_within_a_split_do_not_count() -> None:
    assert find_duplicates(splits(train=[(text(9), "pos"), (text(9), "neg"), (f"{text(9)} z", "pos")])).n_pairs == 0


def test_all_three_splits_are_compared() -> None:
    found = find_duplicates(
        splits(train=[(text(30), "a"), FILL[0]], dev=[(text(30), "a")], test=[(f"{text(30)} z", "a")])
    )
    assert [(pair.first, pair.second, pair.exact) for pair in found.pairs] == [
        ("train_0", "dev_0", True),
        ("train_0", "test_0", False),
        ("dev_0", "test_0", False),
    ]


def test_the_query_is_part_of_the_text() -> None:
    train = [("a film|is it good ?", "a"), ("a book|who wrote it ?", "b")]
    rest = {"dev": [("b|c", "a")]}
    assert find_duplicates(splits(train=train, test=[("A film|is it GOOD ?", "a")], **rest)).overlaps[1].n_exact == 1
    assert find_duplicates(splits(train=train, test=[("a film|is it bad ?", "a")], **rest)).n_pairs == 0


def test_a_document_under_another_query_is_counted_apart() -> None:
    train = [(f"{text(90)}|is it good ?", "a"), (f"{text(90)}|is it old ?", "b")]
    found = find_duplicates(
        splits(
            train=train,
            dev=[("b|c", "a")],
            test=[(f"{text(90)}|is it long ?", "a"), (f"{text(90)} z|is it good ?", "b")],
        )
    )
    assert [(pair.first, pair.second) for pair in found.pairs] == [("train_0", "test_1"), ("train_1", "test_1")]
    assert found.overlaps[1] == Overlap("train", "test", 2, 0, 1, 1, 2, 1)
    assert " 1 examples of test ask another question about a document of train." in found.overlaps[1].sentence


def test_all_pairs_are_counted_and_some_listed() -> None:
    found = find_duplicates(
        splits(train=[("same text", label) for label in ("pos", "neg") * 40], test=[("same text", "pos")] * 40)
    )
    assert found.n_pairs == 3200
    assert found.overlaps[1].n_labels_differ == 1600
    assert len(found.pairs) == MAX_PAIRS


@pytest.mark.parametrize("threshold", [0, -1, 1.5])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=rf"threshold must be in \(0, 1\], got {threshold}"):
        find_duplicates(splits(), threshold=threshold)


# Verdicts


def example(text: str, label: str = "pos", id: str = "") -> Example:
    return Example(Document.from_words(text.split(), id=id), label)


def test_duplicates_in_other_splits_are_named() -> None:
    test = [example("a good film of old", id="t0"), example("something else altogether", id="t1")]
    found = check_splits(test, {"train": [example("A good film of old", "neg", "r0")]})
    assert (found.name, found.found) == ("split hygiene", "look here")
    assert found.says == "1 pair of documents in different splits: the same, or nearly."
    assert found.evidence[0].startswith("Of 2 examples of test, 1 have a duplicate in train and 0 a near-duplicate")
    assert found.evidence[1] == "test 't0' and train 'r0': the same, other labels"


def test_splits_without_duplicates_are_clean() -> None:
    others = {"train": [example("e f g h")], "more": [example("i j k l")], "none": []}
    found = check_splits([example("a b c d")], others)
    assert found.found == "holds"
    assert found.evidence == tuple(
        f"No example of {later} has a duplicate or near-duplicate in {earlier}."
        for earlier, later in (("train", "more"), ("train", "test"), ("more", "test"))
    )
    assert check_splits([example("a b c")], {"train": []}).found == "not run"


def test_documents_that_training_did_not_leave_out_are_flagged(toy: Splits) -> None:
    others, digest = {"train": toy.train, "dev": toy.dev}, dataset_digest(toy.test)
    assert check_splits(toy.test, others, digest) == check_splits(toy.test, others)
    found = check_splits(toy.test[:-1], others, digest)
    assert found.found == "look here"
    assert re.search(r"not the documents that training left out.*whole=True", found.says)
    assert check_splits(toy.test[:-1], {}, digest).found == "not run"


# Similar texts


def slow_runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


TEXTS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), min_size=2, max_size=12)


@given(TEXTS, st.sampled_from((0.3, 0.5, 0.8, 1.0)), st.data())
def test_similar_texts_are_those_that_comparing_all_pairs_finds(
    texts: list[list[str]], threshold: float, data: st.DataObject
) -> None:
    starts = [0, *sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=2))), len(texts)]
    runs = [slow_runs(words) for words in texts]
    expected = {}
    for start, stop in pairwise(starts[1:]):
        for later, earlier in product(range(start, stop), range(start)):
            similarity = len(runs[later] & runs[earlier]) / len(runs[later] | runs[earlier])
            if similarity >= threshold - 1e-12:
                expected[later, earlier] = pytest.approx(similarity)
    found = list(similar_texts(texts, starts, threshold))
    assert {pair[:2]: pair[2] for pair in found} == expected
    assert [pair[:2] for pair in found] == sorted(expected)


def test_no_texts_are_not_similar() -> None:
    assert list(similar_texts([], [0, 0], 0.8)) == []


# Real corpora

# Examples with a duplicate and with a near-duplicate: of dev in train, of test in train, of test in dev.
DUPLICATES = {
    "sst": [(1, 0), (2, 0), (0, 0)],
    "agnews": [(27, 57), (36, 97), (7, 18)],
    "evinf": [(0, 0), (0, 0), (0, 0)],
    "movies": [(0, 0), (0, 1), (0, 0)],
    "multirc": [(0, 0), (0, 0), (0, 0)],
}
LARGE = ("agnews", "multirc")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in CORPORA]
)
def test_the_duplicates_of_the_corpora(
    name: str, corpora_dir: Path, read_corpus: Callable[[str, Path], Splits]
) -> None:
    found = find_duplicates(read_corpus(name, corpora_dir))
    assert [(overlap.n_exact, overlap.n_near) for overlap in found.overlaps] == DUPLICATES[name]
    assert [overlap.n_repeated for overlap in found.overlaps] == [0, 0, 0]


@pytest.mark.parametrize("n_texts", [600, pytest.param(3000, marks=pytest.mark.slow)])
def test_many_long_texts_take_seconds(n_texts: int) -> None:
    """Ten times as many texts take about ten times as long."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, 20_001)
    words = np.array([f"w{number}" for number in range(20_000)])
    rows = [
        (" ".join(words[generator.choice(20_000, 300, p=chances / chances.sum())]), "ab"[i % 2]) for i in range(n_texts)
    ]
    n_train, n_dev = n_texts * 8 // 10, n_texts // 10
    rest = rows[n_train + n_dev :]
    made = splits(
        train=rows[:n_train], dev=rows[n_train : n_train + n_dev], test=[*rest[:-1], (f"{rows[0][0]} z", "a")]
    )
    start = time.perf_counter()
    found = find_duplicates(made)
    assert time.perf_counter() - start < 20
    assert [(pair.first, pair.second) for pair in found.pairs] == [("train_0", f"test_{len(rest) - 1}")]
