import re
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.audit.duplicates import (
    MAX_PAIRS,
    THRESHOLD,
    DuplicatePair,
    Duplicates,
    Overlap,
    check_splits,
    find_duplicates,
    similar_texts,
)
from fresh.data.corpora import CORPORA
from fresh.data.splits import Splits, dataset_digest
from fresh.document import Document, Example


def examples(split: str, rows: Sequence[str]) -> list[Example]:
    """Make examples of rows such as "label: text" or "label: text | query"."""
    made = []
    for number, row in enumerate(rows):
        label, _, text = row.partition(": ")
        text, _, query = text.partition(" | ")
        made.append(Example(Document.from_tokenized(text, query, f"{split}_{number}"), label))
    return made


def find(threshold: float = THRESHOLD, **splits: Sequence[str]) -> Duplicates:
    return find_duplicates({name: examples(name, rows) for name, rows in splits.items()}, threshold)


def ids(found: Duplicates) -> list[tuple[str, str, bool]]:
    return [(pair.first, pair.second, pair.exact) for pair in found.pairs]


def text(n_words: int) -> str:
    return " ".join(f"w{number}" for number in range(n_words))


def test_clean_splits() -> None:
    found = find(train=["a: b c d e", "a: B c d e f"], dev=["a: f g h i"], test=["a: j k l m"])
    assert (found.n_pairs, found.pairs) == (0, ())
    for overlap, (earlier, later) in zip(found.overlaps, combinations(("train", "dev", "test"), 2), strict=True):
        assert overlap.sentence == f"No example of {later} has a duplicate or near-duplicate in {earlier}."


def test_duplicates_but_for_case_and_space() -> None:
    found = find(train=["pos: A  good film", "neg: bad"], test=["neg: a GOOD\nfilm", "neg: Bad"])
    assert found.pairs == (
        DuplicatePair("train_0", "train", "test_0", "test", 1.0, exact=True, labels_differ=True),
        DuplicatePair("train_1", "train", "test_1", "test", 1.0, exact=True, labels_differ=False),
    )
    [overlap] = found.overlaps
    assert overlap == Overlap("train", "test", 2, 2, 0, 0, 2, 1)
    assert overlap.sentence == (
        "Of 2 examples of test, 2 have a duplicate in train and 0 a near-duplicate (100.0% together). "
        "In 1 of 2 such pairs, the labels differ."
    )


def test_near_duplicates_from_the_threshold_on() -> None:
    """20 words are 18 runs. With 2 other words at the end 16 are left, of 20 in all; with 3, 15 of 21."""
    train, test = [f"pos: {text(20)}", "neg: other"], [f"pos: {text(18)} x y", f"pos: {text(17)} x y z", "neg: other"]
    found = find(train=train, test=test[:2])
    assert found.pairs == (DuplicatePair("train_0", "train", "test_0", "test", 0.8, exact=False, labels_differ=False),)
    assert (found.overlaps[0].n_exact, found.overlaps[0].n_near) == (0, 1)
    found = find(0.7, train=train, test=test[1:])
    assert [pair.similarity for pair in found.pairs] == [1, pytest.approx(15 / 21)]


@pytest.mark.parametrize("short", ["yes", "oh no", "so it goes"])
def test_short_texts_are_duplicates_or_nothing(short: str) -> None:
    found = find(train=[f"pos: {short}", f"neg: {short} again"], test=[f"pos: {short.upper()}", f"pos: well {short}"])
    assert ids(found) == [("train_0", "test_0", True)]


def test_all_splits_are_compared_with_all_earlier_ones_and_none_with_itself() -> None:
    found = find(train=[f"a: {text(30)}", f"b: {text(30)} y z"], dev=[f"a: {text(30)}"], test=[f"a: {text(30)} z"])
    assert len(found.pairs) == 5
    assert ids(found)[0] == ("train_0", "dev_0", True)
    in_train = product(("train_0", "train_1"), ("dev_0", "test_0"))
    assert {pair[:2] for pair in ids(found)} == {*in_train, ("dev_0", "test_0")}


def test_the_query_is_part_of_the_text_and_documents_under_other_queries_are_counted_apart() -> None:
    train = ["a: a film | is it good ?", "b: a book | who wrote it ?"]
    assert find(train=train, test=["a: A film | is it GOOD ?"]).overlaps[0].n_exact == 1
    train = [f"a: {text(90)} | is it good ?", f"b: {text(90)} | is it old ?"]
    found = find(train=train, test=[f"a: {text(90)} | is it long ?", f"b: {text(90)} z | is it good ?"])
    assert ids(found) == [("train_0", "test_1", False), ("train_1", "test_1", False)]
    assert found.overlaps == (Overlap("train", "test", 2, 0, 1, 1, 2, 1),)
    assert " 1 example of test asks another question about a document of train." in found.overlaps[0].sentence


def test_all_pairs_are_counted_and_some_listed() -> None:
    found = find(train=["pos: same text", "neg: same text"] * 40, test=["pos: same text"] * 40)
    assert (found.n_pairs, found.overlaps[0].n_labels_differ, len(found.pairs)) == (3200, 1600, MAX_PAIRS)


@pytest.mark.parametrize("threshold", [0, -1, 1.5])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=rf"threshold must be in \(0, 1\], got {threshold}"):
        find(threshold)


# Verdicts


def test_duplicates_in_other_splits_are_named() -> None:
    test = examples("test", ["pos: a good film of old", "pos: something else altogether"])
    found = check_splits(test, {"train": examples("train", ["neg: A good film of old"])})
    assert (found.name, found.found) == ("split hygiene", "look here")
    assert found.says == "1 pair of documents in different splits: the same, or nearly."
    assert found.evidence[0].startswith("Of 2 examples of test, 1 has a duplicate in train and 0 a near-duplicate")
    assert found.evidence[1] == "test 'test_0' and train 'train_0': the same, other labels"


def test_splits_without_duplicates_are_clean() -> None:
    found = check_splits(examples("test", ["a: b c d"]), {"train": examples("train", ["a: e f g h"]), "none": []})
    assert found.found == "holds"
    assert found.evidence == ("No example of test has a duplicate or near-duplicate in train.",)


def test_documents_that_training_did_not_leave_out_are_flagged(toy: Splits) -> None:
    others, digest = {"train": toy.train, "dev": toy.dev}, dataset_digest(toy.test)
    assert check_splits(toy.test, others, digest) == check_splits(toy.test, others)
    found = check_splits(toy.test[:-1], others, digest)
    assert found.found == "look here"
    assert re.search(r"not the documents that training left out.*whole=True", found.says)
    assert check_splits(toy.test[:-1], {"train": []}, digest).found == "not run"


# Similar texts


TEXTS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), min_size=2, max_size=12)


@given(TEXTS, st.sampled_from((0.3, 0.5, 0.8, 1.0)), st.data())
def test_similar_texts_are_those_that_comparing_all_pairs_finds(
    texts: list[list[str]], threshold: float, data: st.DataObject
) -> None:
    starts = [0, *sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=2))), len(texts)]
    runs = [{tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} for words in texts]
    pairs = [pair for start, stop in pairwise(starts[1:]) for pair in product(range(start, stop), range(start))]
    compared = [(one, two, len(runs[one] & runs[two]) / len(runs[one] | runs[two])) for one, two in pairs]
    expected = [pair for pair in compared if pair[2] >= threshold - 1e-12]
    assert list(similar_texts(texts, starts, threshold)) == expected


def test_of_no_texts_none_are_similar() -> None:
    assert list(similar_texts([], [0, 0], THRESHOLD)) == []


def test_memory_stays_small_where_all_texts_share_most_of_their_runs() -> None:
    """60 shared runs of 80 are too few for a pair, but enough to compare all texts."""
    texts = [[*text(62).split(), *(f"{number}_{place}" for place in range(10))] for number in range(600)]
    texts.append(texts[1])
    tracemalloc.start()
    try:
        assert list(similar_texts(texts, [0, 400, 601], THRESHOLD)) == [(600, 1, 1.0)]
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


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
    rows = [" ".join(words[generator.choice(20_000, 300, p=chances / chances.sum())]) for _ in range(n_texts)]
    first, rest = n_texts * 8 // 10, n_texts * 9 // 10
    splits = {"train": rows[:first], "dev": rows[first:rest], "test": [f"{rows[0]} z", *rows[rest:]]}
    start = time.perf_counter()
    found = find_duplicates({name: examples(name, [f"a: {row}" for row in part]) for name, part in splits.items()})
    assert time.perf_counter() - start < 20
    assert ids(found) == [("train_0", "test_0", False)]
