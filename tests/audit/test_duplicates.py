import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.audit.duplicates import MOST_PAIRS, _Overlap, _Pair, find_twins
from fresh.audit.shingles import Index, Shingles
from fresh.data.corpora import CORPORA
from fresh.data.splits import Splits
from fresh.document import Document, Example

DATA = Path(os.environ.get("FRESH_DATA") or Path(__file__).parents[3] / "shared" / "data")
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
    found = find_twins(splits())
    assert found.clean
    assert found.pairs == ()
    assert [overlap.sentence for overlap in found.overlaps] == [
        "No example of dev has a duplicate or near-duplicate in train.",
        "No example of test has a duplicate or near-duplicate in train.",
        "No example of test has a duplicate or near-duplicate in dev.",
    ]


def test_duplicates_but_for_case_and_space() -> None:
    found = find_twins(
        splits(train=[("A  good film", "pos"), ("bad", "neg")], test=[("a GOOD\nfilm", "neg"), ("Bad", "neg")])
    )
    assert found.pairs == (
        _Pair("train_0", "train", "test_0", "test", 1.0, exact=True, labels_differ=True),
        _Pair("train_1", "train", "test_1", "test", 1.0, exact=True, labels_differ=False),
    )
    assert found.overlaps[1] == _Overlap("train", "test", 2, 2, 0, 0, 2, 1)
    assert found.overlaps[1].sentence == (
        "Of 2 examples of test, 2 have a duplicate in train and 0 a near-duplicate (100.0% together). "
        "In 1 of 2 such pairs the labels differ."
    )
    assert not found.clean


def test_near_duplicates_from_the_threshold_on() -> None:
    """20 words are 18 runs. With 2 other words at the end 16 are left, of 20 in all; with 3, 15 of 21."""
    train = [(text(20), "pos"), FILL[0]]
    found = find_twins(splits(train=train, test=[(f"{text(18)} x y", "pos"), (f"{text(17)} x y z", "pos")]))
    assert found.pairs == (_Pair("train_0", "train", "test_0", "test", 0.8, exact=False, labels_differ=False),)
    assert (found.overlaps[1].n_exact, found.overlaps[1].n_near) == (0, 1)
    found = find_twins(splits(train=train, test=[(f"{text(17)} x y z", "pos"), FILL[0]]), threshold=0.7)
    assert found.pairs[0].similarity == 1  # the filling, which both have
    assert found.pairs[1].similarity == pytest.approx(15 / 21)


@pytest.mark.parametrize("short", ["yes", "oh no", "so it goes"])
def test_short_texts_are_duplicates_or_nothing(short: str) -> None:
    train = [(short, "pos"), (f"{short} again", "neg")]
    found = find_twins(splits(train=train, test=[(short.upper(), "pos"), (f"well {short}", "pos")]))
    assert [(pair.first, pair.second, pair.exact) for pair in found.pairs] == [("train_0", "test_0", True)]


def test_twins_within_a_split_are_no_matter() -> None:
    assert find_twins(splits(train=[(text(9), "pos"), (text(9), "neg"), (f"{text(9)} z", "pos")])).clean


def test_all_three_splits_are_compared() -> None:
    found = find_twins(splits(train=[(text(30), "a"), FILL[0]], dev=[(text(30), "a")], test=[(f"{text(30)} z", "a")]))
    assert [(pair.first, pair.second, pair.exact) for pair in found.pairs] == [
        ("train_0", "dev_0", True),
        ("train_0", "test_0", False),
        ("dev_0", "test_0", False),
    ]


def test_the_query_is_part_of_the_text() -> None:
    train = [("a film|is it good ?", "a"), ("a book|who wrote it ?", "b")]
    rest = {"dev": [("b|c", "a")]}
    assert find_twins(splits(train=train, test=[("A film|is it GOOD ?", "a")], **rest)).overlaps[1].n_exact == 1
    assert find_twins(splits(train=train, test=[("a film|is it bad ?", "a")], **rest)).clean


def test_a_document_under_another_query_is_counted_apart() -> None:
    train = [(f"{text(90)}|is it good ?", "a"), (f"{text(90)}|is it old ?", "b")]
    found = find_twins(
        splits(
            train=train,
            dev=[("b|c", "a")],
            test=[(f"{text(90)}|is it long ?", "a"), (f"{text(90)} z|is it good ?", "b")],
        )
    )
    assert [(pair.first, pair.second) for pair in found.pairs] == [("train_0", "test_1"), ("train_1", "test_1")]
    assert found.overlaps[1] == _Overlap("train", "test", 2, 0, 1, 1, 2, 1)
    assert found.overlaps[1].sentence.endswith(
        " 1 examples of test ask something else about a document of train; that is normal where a corpus asks many "
        "things of one text, but the text is not new."
    )


def test_all_pairs_are_counted_and_some_listed() -> None:
    found = find_twins(
        splits(train=[("same text", label) for label in ("pos", "neg") * 40], test=[("same text", "pos")] * 40)
    )
    assert found.n_pairs == 3200
    assert found.overlaps[1].n_labels_differ == 1600
    assert len(found.pairs) == MOST_PAIRS


@pytest.mark.parametrize("threshold", [0, -1, 1.5])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=rf"^threshold must be above 0 and at most 1, got {threshold}\.$"):
        find_twins(splits(), threshold=threshold)


# Runs of words


def slow_runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


TEXTS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), min_size=2, max_size=12)


@given(TEXTS, st.sampled_from((0.3, 0.5, 0.8, 1.0)), st.data())
def test_the_index_finds_what_comparing_each_with_each_finds(
    texts: list[list[str]], threshold: float, data: st.DataObject
) -> None:
    index = Index(Shingles.of(texts), threshold)
    number = data.draw(st.integers(0, len(texts) - 1))
    before = data.draw(st.integers(0, number))
    runs = [slow_runs(words) for words in texts]
    similarities = [len(runs[number] & other) / len(runs[number] | other) for other in runs[:before]]
    expected = [(other, value) for other, value in enumerate(similarities) if value >= threshold - 1e-12]
    found = index.similar(number, before)
    assert [other for other, _ in found] == [other for other, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected])
    assert not index.marks.any()


@given(TEXTS)
def test_every_text_has_its_runs_the_rarest_first(texts: list[list[str]]) -> None:
    shingles = Shingles.of(texts)
    every = Counter(tuple(words[i : i + 3]) for words in texts for i in range(max(1, len(words) - 2)))
    frequency = sorted(every.values())  # of the runs as they are numbered
    assert len(shingles) == len(texts)
    assert len(set(shingles.runs.tolist())) == len(frequency)
    for number, words in enumerate(texts):
        runs = shingles[number].tolist()
        assert runs == sorted(set(runs))
        assert [frequency[run] for run in runs] == sorted(every[run] for run in slow_runs(words))


def test_no_texts_have_no_runs() -> None:
    assert len(Shingles.of([])) == 0


# Real corpora


# Examples with a duplicate and with a near-duplicate: of dev in train, of test in train, of test in dev.
TWINS = {
    "sst": [(1, 0), (2, 0), (0, 0)],
    "agnews": [(27, 57), (36, 97), (7, 18)],
    "evinf": [(0, 0), (0, 0), (0, 0)],
    "movies": [(0, 0), (0, 1), (0, 0)],
    "multirc": [(0, 0), (0, 0), (0, 0)],
}


@pytest.mark.parametrize("name", CORPORA)
def test_the_twins_of_the_corpora(name: str) -> None:
    if not DATA.is_dir():
        message = f"The corpora are not at {DATA}. Name their folder in FRESH_DATA."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)
    found = find_twins(CORPORA[name].read(DATA))
    assert [(overlap.n_exact, overlap.n_near) for overlap in found.overlaps] == TWINS[name]
    assert [overlap.n_repeated for overlap in found.overlaps] == [0, 0, 0]


def test_many_long_texts_take_seconds() -> None:
    """3,000 texts of 300 words; ten times as many take about ten times as long."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, 20_001)
    words = np.array([f"w{number}" for number in range(20_000)])
    rows = [
        (" ".join(words[generator.choice(20_000, 300, p=chances / chances.sum())]), "ab"[i % 2]) for i in range(3000)
    ]
    made = splits(train=rows[:2400], dev=rows[2400:2700], test=[*rows[2700:-1], (rows[0][0] + " z", "a")])
    start = time.perf_counter()
    found = find_twins(made)
    assert time.perf_counter() - start < 20
    assert [(pair.first, pair.second) for pair in found.pairs] == [("train_0", "test_299")]
