import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.splits import BadRows, DataConfig, Splits, load_splits, split_off
from fresh.document import Document, Example
from fresh.errors import DataError

PLAIN = DataConfig()
PAIRS = [(f"{word} film number {i}", word) for i in range(10) for word in ("good", "bad")]


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def review(text: str = "Good film.", label: Any = "pos", **more: Any) -> dict[str, Any]:
    return {"text": text, "label": label, **more}


def example(label: str, id: str = "x", query: Sequence[str] = ()) -> Example:
    return Example(Document.from_words(["a", "film"], query, id), label)


def load_fails(data: Any, config: DataConfig = PLAIN) -> str:
    with pytest.raises(DataError) as caught:
        load_splits(data, config, seed=0)
    return str(caught.value)


def sizes(splits: Splits) -> tuple[int, int, int]:
    return len(splits.train), len(splits.dev), len(splits.test)


# Splits


def test_labels_are_those_of_train_sorted() -> None:
    train = (example("b"), example("a"), example("b"))
    assert Splits(train, train[:1], train[:1]).labels == ("a", "b")


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        Splits((example("a"), example("b")), (example("a"),), ())
    assert str(caught.value) == ("There are no examples for test. Give some, or let them be cut off from the data.")


def test_a_single_class_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        Splits((example("a"), example("a")), (example("a"),), (example("a"),))
    assert str(caught.value) == (
        "All 2 training examples have the label 'a'. "
        "At least two classes are needed: look at the column that `label` names."
    )


def test_a_label_that_was_never_trained_is_refused() -> None:
    train = (example("a"), example("b"))
    with pytest.raises(DataError) as caught:
        Splits(train, train, (example("c", "t7"),))
    assert str(caught.value) == (
        "The test document 't7' has the label 'c', but the training examples have only: a, b. "
        "Add training examples for it, or take it out."
    )


def test_queries_in_some_documents_only_are_refused() -> None:
    train = (example("a", "t1"), example("b", "t2"))
    with pytest.raises(DataError) as caught:
        Splits(train, (example("a", "d1", ["why"]),), train)
    assert str(caught.value) == (
        "Document 'd1' has a query and document 't1' has none. "
        "Give every row a query, or leave the column out with query=''."
    )


# Loading


def test_splits_are_returned_as_they_are() -> None:
    splits = load_splits(PAIRS, PLAIN, seed=0)
    assert load_splits(splits, PLAIN, seed=1) is splits


def test_dev_and_test_are_cut_off_a_list() -> None:
    splits = load_splits(PAIRS, PLAIN, seed=0)
    assert sizes(splits) == (16, 2, 2)
    assert Counter(e.label for e in splits.dev) == Counter(e.label for e in splits.test) == {"good": 1, "bad": 1}
    assert splits == load_splits(PAIRS, PLAIN, seed=0)
    assert any(splits != load_splits(PAIRS, PLAIN, seed=seed) for seed in range(1, 5))


def test_frames_and_datasets_give_the_same(tmp_path: Path) -> None:
    records = [{**review(*pair), "id": str(i)} for i, pair in enumerate(PAIRS)]
    splits = load_splits(write(tmp_path / "r.jsonl", *records), PLAIN, seed=3)
    assert load_splits(pd.DataFrame(records), PLAIN, seed=3) == splits
    assert load_splits(Dataset.from_list(records), PLAIN, seed=3) == splits
    assert load_splits(records, PLAIN, seed=3) == splits


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    half = len(PAIRS) // 2
    paths = [
        write(tmp_path / f"{name}.jsonl", *(review(*pair) for pair in pairs))
        for name, pairs in (("a", PAIRS[:half]), ("b", PAIRS[half:]))
    ]
    splits = load_splits(paths, PLAIN, seed=0)
    assert {e.document.text for part in (splits.train, splits.dev, splits.test) for e in part} == {t for t, _ in PAIRS}
    assert splits.train[0].document.id.startswith("a-")
    assert splits.train[-1].document.id.startswith("b-")


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "r.jsonl", *(review(*pair) for pair in PAIRS))
    paths = [str(tmp_path / folder / "r.jsonl") for folder in ("x", "y")]
    splits = load_splits(paths, PLAIN, seed=0)
    assert sum(sizes(splits)) == 2 * len(PAIRS)
    assert splits.train[0].document.id.startswith(f"{tmp_path.as_posix()}/x/r-")


def test_an_id_in_two_files_is_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", review(id="1")) for name in ("a", "b")]
    assert load_fails(paths).startswith("b.jsonl, line 1: the id '1' stands in a.jsonl, line 1 already.")


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", review())
    assert load_fails([path, path]) == f"{path} is given twice. Give each file once."


def test_a_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", *(review(*pair) for pair in PAIRS))
    (tmp_path / "val.csv").write_text("text,label\nA film,good\n")
    (tmp_path / "test.jsonl.gz").write_bytes(gzip.compress(b'{"document": "No film", "label": "bad"}\n'))
    splits = load_splits(str(tmp_path), PLAIN, seed=0)
    assert sizes(splits) == (20, 1, 1)
    assert splits.test[0].document.words == ("No", "film")
    assert splits.dev[0].document.id == "val-1"


def test_files_for_dev_and_test_are_read(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", *(review(*pair) for pair in PAIRS))
    other = write(tmp_path / "other.jsonl", review("A film", "good"))
    assert sizes(load_splits(train, DataConfig(dev=str(other)), seed=0)) == (18, 1, 2)
    assert sizes(load_splits(train, DataConfig(dev=str(other), test=str(other)), seed=0)) == (20, 1, 1)


def test_a_file_for_dev_goes_before_the_one_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", *(review(*pair) for pair in PAIRS))
    write(tmp_path / "dev.jsonl", review("A film", "good"), review("B film", "bad"))
    other = write(tmp_path / "other.jsonl", review("A film", "good"))
    assert sizes(load_splits(tmp_path, DataConfig(dev=str(other)), seed=0)) == (18, 1, 2)


def test_a_dataset_dict_is_read() -> None:
    records = [review(*pair) for pair in PAIRS]
    parts = {"train": Dataset.from_list(records), "validation": Dataset.from_list(records[:4])}
    splits = load_splits(DatasetDict(parts), PLAIN, seed=0)
    assert sizes(splits) == (18, 4, 2)
    assert splits.dev[0].document.id == "dev-1"
    assert load_splits({"train": records, "val": records[:4], "unsupervised": []}, PLAIN, seed=0) == splits


def test_files_may_be_named_by_split(tmp_path: Path) -> None:
    train = write(tmp_path / "a.jsonl", *(review(*pair) for pair in PAIRS))
    assert load_splits({"train": str(train), "dev": train}, PLAIN, seed=0).dev[0].document.id == "a-1"


def test_tables_without_train_are_refused() -> None:
    assert load_fails({"text": ["a"], "label": ["b"]}) == (
        "No table is named train, among: text, label. Name the training data so."
    )


def test_two_tables_for_dev_are_refused() -> None:
    assert load_fails({"train": PAIRS, "dev": PAIRS, "val": PAIRS}) == (
        "Two tables are for dev, among: train, dev, val. Keep one of them."
    )


def test_a_folder_without_train_is_refused(tmp_path: Path) -> None:
    assert load_fails(tmp_path) == (
        f"{tmp_path} holds no training data: looked for train with one of the endings .jsonl, .jsonl.gz, .json, "
        ".json.gz, .csv, .csv.gz, .tsv, .tsv.gz, .parquet. Name a file, or a folder with such a file."
    )


def test_too_few_rows_to_cut_are_refused() -> None:
    assert load_fails(PAIRS[:3]) == (
        "3 examples of 2 classes are too few to cut off 1 for dev and 1 for test and keep each class in train. "
        "Give more, or give files for them with `dev` and `test`."
    )


def test_bad_rows_of_all_splits_are_counted(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", *(review(*pair) for pair in PAIRS), review(""))
    dev = write(tmp_path / "dev.jsonl", review("A film", "good"), review(""))
    bad = BadRows()
    load_splits(train, DataConfig(dev=str(dev), skip_bad=True), 0, bad)
    assert (bad.count, bad.total) == (2, 23)


# Cutting off

LABELS = st.lists(st.sampled_from("abcd"), min_size=4, max_size=60)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Example], int, int]:
    labels = draw(LABELS)
    room = len(labels) - len(set(labels))
    n_dev = draw(st.integers(0, room))
    n_test = draw(st.integers(0, room - n_dev))
    return [example(label, str(i)) for i, label in enumerate(labels)], n_dev, n_test


@given(cuts(), st.integers(0, 5))
def test_every_example_goes_to_one_part(cut: tuple[list[Example], int, int], seed: int) -> None:
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
        found = Counter(e.label for e in part)
        assert all(abs(found[label] - n * count / len(examples)) < 1 for label, count in counts.items())
    assert split_off(examples, n_dev, 0, seed)[1] == dev
    assert split_off(examples, 0, n_test, seed)[2] == test


def test_the_largest_remainder_gets_the_last_place() -> None:
    examples = [example(label, str(i)) for i, label in enumerate("a" * 47 + "b" * 33 + "c" * 20)]
    _, dev, _ = split_off(examples, 10, 0, seed=0)
    assert Counter(e.label for e in dev) == {"a": 5, "b": 3, "c": 2}
