from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from data_files import review, write, write_folder
from fresh.data import BadRows, DataConfig, Splits, load_splits, split_off
from fresh.document import Document, Example
from fresh.errors import DataError

DEFAULT = DataConfig()
PAIRS = [(f"{word} film number {i}", word) for i in range(10) for word in ("good", "bad")]


REVIEWS = [review(*pair) for pair in PAIRS]


def example(label: str, id: str = "x", query: Sequence[str] = ()) -> Example:
    return Example(Document.from_words(["a", "film"], query, id), label)


def sizes(splits: Splits) -> tuple[int, int, int]:
    return len(splits.train), len(splits.dev), len(splits.test)


BOTH = (example("a", "t1"), example("b", "t2"))


@pytest.mark.parametrize(
    ("train", "dev", "test", "message"),
    [
        (BOTH, BOTH, (), "no examples for test"),
        (BOTH[:1] * 2, BOTH[:1], BOTH[:1], "All 2 training examples have the label 'a'.*`label`"),
        (BOTH, BOTH, (example("c", "t7"),), "test document 't7' has the label 'c', but .* have only: a, b"),
        (BOTH, (example("a", "d1", ["why"]),), BOTH, "Document 'd1' has a query, but document 't1' has none.*query=''"),
    ],
)
def test_splits_that_cannot_be_used_are_refused(train: Any, dev: Any, test: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Splits(train, dev, test)


# Loading


def test_dev_and_test_are_split_off_a_list() -> None:
    splits = load_splits(PAIRS, DEFAULT, seed=0)
    assert load_splits(splits, DEFAULT, seed=1) is splits
    assert (sizes(splits), splits.labels) == ((16, 2, 2), ("bad", "good"))
    assert Counter(e.label for e in splits.dev) == Counter(e.label for e in splits.test) == {"good": 1, "bad": 1}
    assert splits == load_splits(PAIRS, DEFAULT, seed=0)
    assert any(splits != load_splits(PAIRS, DEFAULT, seed=seed) for seed in range(1, 5))


def test_frames_and_datasets_give_the_same_splits(tmp_path: Path) -> None:
    records = [{**record, "id": str(i)} for i, record in enumerate(REVIEWS)]
    splits = load_splits(write(tmp_path / "r.jsonl", records), DEFAULT, seed=3)
    for data in (pd.DataFrame(records), Dataset.from_list(records), records):
        assert load_splits(data, DEFAULT, seed=3) == splits


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, part) for name, part in (("a.jsonl", REVIEWS[:10]), ("b.jsonl", REVIEWS[10:]))]
    splits = load_splits(paths, DEFAULT, seed=0)
    assert {e.document.text for part in (splits.train, splits.dev, splits.test) for e in part} == {t for t, _ in PAIRS}
    assert splits.train[0].document.id.startswith("a-")
    assert splits.train[-1].document.id.startswith("b-")
    # Ids distinguish files with the same name.
    splits = load_splits([str(write(tmp_path / place / "r.jsonl", REVIEWS)) for place in ("x", "y")], DEFAULT, seed=0)
    assert sum(sizes(splits)) == 2 * len(PAIRS)
    assert splits.train[0].document.id.startswith(f"{tmp_path.as_posix()}/x/r-")


def test_a_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", REVIEWS)
    write(tmp_path / "val.csv", "text,label\nA film,good\n")
    (tmp_path / "v2_test.csv").touch()
    write(tmp_path / "test.jsonl.gz", [{"document": "No film", "label": "bad"}])
    splits = load_splits(str(tmp_path), DEFAULT, seed=0)
    assert sizes(splits) == (20, 1, 1)
    assert splits.test[0].document.words == ("No", "film")
    assert splits.dev[0].document.id == "val-1"


def test_files_for_dev_and_test_take_precedence(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", REVIEWS)
    other = str(write(tmp_path / "other.jsonl", [review("A film", "good")]))
    assert sizes(load_splits(train, DataConfig(dev=other), seed=0)) == (18, 1, 2)
    assert sizes(load_splits(train, DataConfig(dev=other, test=other), seed=0)) == (20, 1, 1)
    write(tmp_path / "dev.jsonl", [review("A film", "good"), review("B film", "bad")])
    assert sizes(load_splits(tmp_path, DataConfig(dev=other), seed=0)) == (18, 1, 2)


def test_a_dataset_dict_is_read(tmp_path: Path) -> None:
    parts = {"train": Dataset.from_list(REVIEWS), "validation": Dataset.from_list(REVIEWS[:4])}
    splits = load_splits(DatasetDict(parts), DEFAULT, seed=0)
    assert sizes(splits) == (18, 4, 2)
    assert splits.dev[0].document.id == "dev-1"
    assert load_splits({"train": REVIEWS, "val": REVIEWS[:4], "unsupervised": []}, DEFAULT, seed=0) == splits
    path = write(tmp_path / "a.jsonl", REVIEWS)
    assert load_splits({"train": str(path), "dev": path}, DEFAULT, seed=0).dev[0].document.id == "a-1"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: [write(folder / name, [review(id="1")]) for name in ("a.jsonl", "b.jsonl")],
            r"b\.jsonl, line 1: the id '1' is already used in a\.jsonl, line 1",
        ),
        (lambda folder: [write(folder / "a.jsonl", [review()])] * 2, r"a\.jsonl is listed twice"),
        (lambda _: {"text": ["a"], "label": ["b"]}, "keys text, label has no training data"),
        (lambda _: {"train": PAIRS, "dev": PAIRS, "val": PAIRS}, "keys train, dev, val holds dev and val for dev"),
        (lambda folder: folder, r"has no training data\. .* one of the endings \.jsonl, .*\.tsv\.gz, \.parquet"),
        (
            lambda folder: write_folder(folder, dict.fromkeys(("train.csv", "dev.jsonl", "val.csv"), "")),
            r"holds dev\.jsonl and val\.csv for dev",
        ),
        (lambda _: PAIRS[:3], "3 examples of 2 classes: too few to split off 1 for dev and 1 for test.*`dev`"),
    ],
)
def test_data_that_cannot_be_split_is_refused(tmp_path: Path, make: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_splits(make(tmp_path), DEFAULT, seed=0)


def test_bad_rows_of_all_splits_are_counted(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", [*REVIEWS, review("")])
    dev = write(tmp_path / "dev.jsonl", [review("A film", "good"), review("")])
    bad = BadRows()
    load_splits(train, DataConfig(dev=str(dev), skip_bad=True), 0, bad)
    assert (bad.count, bad.total) == (2, 23)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Example], int, int]:
    labels = draw(st.lists(st.sampled_from("abcd"), min_size=4, max_size=60))
    room = len(labels) - len(set(labels))
    n_dev = draw(st.integers(0, room))
    n_test = draw(st.integers(0, room - n_dev))
    return [example(label, str(i)) for i, label in enumerate(labels)], n_dev, n_test


@given(cuts(), st.integers(0, 5))
def test_every_example_goes_to_one_split(cut: tuple[list[Example], int, int], seed: int) -> None:
    examples, n_dev, n_test = cut
    train, dev, test = split_off(examples, n_dev, n_test, seed)
    assert (len(dev), len(test)) == (n_dev, n_test)
    assert sorted(int(e.document.id) for part in (train, dev, test) for e in part) == list(range(len(examples)))
    assert {e.label for e in train} == {e.label for e in examples}
    for part in (train, dev, test):
        assert [int(e.document.id) for e in part] == sorted(int(e.document.id) for e in part)
    assert (train, dev, test) == split_off(examples, n_dev, n_test, seed)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(20, 40), min_size=2), st.integers(0, 5), st.data())
def test_classes_keep_their_shares_and_dev_does_not_move_test(
    counts: dict[str, int], seed: int, data: st.DataObject
) -> None:
    labels = data.draw(st.permutations([label for label, count in counts.items() for _ in range(count)]))
    examples = [example(label, str(i)) for i, label in enumerate(labels)]
    n_dev, n_test = (data.draw(st.integers(0, len(examples) // 4)) for _ in range(2))
    _, dev, test = split_off(examples, n_dev, n_test, seed)
    for part, n in ((dev, n_dev), (test, n_test)):
        drawn = Counter(e.label for e in part)
        assert all(abs(drawn[label] - n * count / len(examples)) < 1 for label, count in counts.items())
    assert split_off(examples, n_dev, 0, seed)[1] == dev
    assert split_off(examples, 0, n_test, seed)[2] == test


def test_the_largest_remainder_gets_the_last_seat() -> None:
    examples = [example(label, str(i)) for i, label in enumerate("a" * 47 + "b" * 33 + "c" * 20)]
    _, dev, _ = split_off(examples, 10, 0, seed=0)
    assert Counter(e.label for e in dev) == {"a": 5, "b": 3, "c": 2}
