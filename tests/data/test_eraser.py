import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import annotation, eraser_files, evidence, sparse_tar, write, write_folder, write_tar
from fresh.data import DataConfig, Splits, load_splits
from fresh.data.eraser import read_eraser
from fresh.document import Example, Mask
from fresh.errors import DataError

DEFAULT = DataConfig()
DOCS = {"a.txt": "it was a good\nfilm .\n", "b.txt": "a dull bad film", "deep/c.txt": "c d e"}


GOOD = annotation("a.txt", "POS", [evidence("a.txt", 3, 5)], [evidence("a.txt", 0, 1), evidence("a.txt", 4, 6)])
BAD = annotation("b.txt", "NEG", [evidence("b.txt", 1, 2), evidence("b.txt", 3, 3)])


def files(docs: dict[str, str] = DOCS, /, **splits: list[dict[str, Any]]) -> dict[str, bytes]:
    """Make the files of a corpus, with other annotations for some splits."""
    return eraser_files(docs, **{"train": [GOOD, BAD], "val": [BAD], "test": [GOOD], **splits})


def read_test_example(folder: Path, row: dict[str, Any]) -> Example:
    [example] = load_splits(write_folder(folder, files(test=[row])), DEFAULT, seed=0).test
    return example


def check(splits: Splits) -> None:
    good, bad = splits.train
    assert good.document.words == ("it", "was", "a", "good", "film", ".")
    assert (good.document.id, good.document.query, good.label) == ("a.txt", ("Good", "?"), "POS")
    assert good.human == Mask.from_spans([(0, 1), (3, 6)], 6)
    assert (bad.human, bad.label) == (Mask.from_spans([(1, 2)], 4), "NEG")
    assert (splits.dev, splits.test) == ((bad,), (good,))


def test_a_folder_is_read_with_any_columns_of_tables(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, files())
    check(load_splits(folder, DEFAULT, seed=0))
    check(load_splits(folder, DataConfig(text="review", label="stars", format="eraser"), seed=0))
    assert load_splits(folder, DataConfig(query=""), seed=0).test[0].document.query == ()


@pytest.mark.parametrize("root", ["corpus/", "./", ""])
@pytest.mark.parametrize(
    ("name", "other"),
    [*((name, name) for name in ("c.tar", "c.tar.gz", "c.tgz")), ("c.tar", "d.tar.gz"), ("c.tar.gz", "d.tar")],
)
def test_a_tar_is_read_whatever_its_ending_says_of_compression(
    tmp_path: Path, name: str, other: str, root: str
) -> None:
    path = write_tar(tmp_path / name, files(), root).rename(tmp_path / other)
    check(load_splits(str(path), DEFAULT, seed=0))
    assert [item.name for item in tmp_path.iterdir()] == [other]


def test_documents_may_be_in_one_file_and_hidden_files_are_skipped(tmp_path: Path) -> None:
    documents = [{"docid": name, "document": text} for name, text in DOCS.items()]
    check(load_splits(write_folder(tmp_path / "one", files({}) | {"docs.jsonl": documents}), DEFAULT, seed=0))
    content = files() | {"docs/._a.txt": b"\xff"}
    check(load_splits(write_folder(tmp_path / "f", content), DEFAULT, seed=0))
    check(load_splits(write_tar(tmp_path / "c.tar", content), DEFAULT, seed=0))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"evidences": [], "docids": ["b.txt"]}, "a dull bad film"),
        ({"evidences": [], "docids": None}, "it was a good film ."),
        ({"evidences": [], "annotation_id": "b.txt:0:1"}, "a dull bad film"),
        ({"evidences": [[evidence("deep/c.txt", 0, 1)]]}, "c d e"),
        ({"evidences": [[evidence("b.txt", 0, 1)]], "docids": ["deep/c.txt", "b.txt"]}, "c d e a dull bad film"),
    ],
)
def test_documents_are_found(tmp_path: Path, fields: dict[str, Any], text: str) -> None:
    assert " ".join(read_test_example(tmp_path, {**GOOD, **fields}).document.words) == text


def test_evidence_moves_with_its_document_and_is_kept_once(tmp_path: Path) -> None:
    places = (("b.txt", 1, 2), ("b.txt", 0, 0), ("a.txt", 5, 6), ("b.txt", 1, 2), ("b.txt", 2, 3))
    groups = [[evidence(*place)] for place in places]
    example = read_test_example(tmp_path, annotation("x", "POS", *groups, docids=["a.txt", "b.txt"]))
    assert example.document.parts == (("a.txt", 6), ("b.txt", 4))
    assert example.evidence == ((7, 8), (6, 6), (5, 6), (8, 9))
    assert example.human is not None
    assert example.document.cut(example.human).words == (".", "dull", "bad")


@pytest.mark.parametrize(("start", "place"), [(-1, 0), (0, 0), (5, 5), (6, 5), (99, 5)])
def test_an_empty_span_stays_inside_its_document(tmp_path: Path, start: int, place: int) -> None:
    row = annotation("a.txt", "POS", [evidence("a.txt", start, start)])
    assert read_test_example(tmp_path, row).evidence == ((place, place),)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), max_size=6))
def test_the_mask_is_the_union_of_all_groups(tmp_path_factory: pytest.TempPathFactory, spans: list[list[int]]) -> None:
    row = annotation("a", "POS", *([evidence("a", start, end)] for start, end in spans))
    folder = write_folder(tmp_path_factory.mktemp("c"), eraser_files({"a": "w " * 20}, train=[row]))
    [read] = read_eraser(folder)["train"]
    covered = {word for start, end in spans for word in range(start, end)}
    assert set(Mask.from_spans(read.values["rationale"], 20).kept.nonzero()[0]) == covered


def test_no_evidence_differs_from_unknown_evidence_and_bad_evidence_can_be_left_out(tmp_path: Path) -> None:
    rows = [annotation("a.txt", "POS"), {**GOOD, "annotation_id": "a.txt:1", "evidences": None}]
    wrong = annotation("b.txt:9", "NEG", [evidence("b.txt", 2, 9)])
    folder = write_folder(tmp_path, files(test=[*rows, wrong]))
    empty, unknown = load_splits(folder, DataConfig(skip_bad=True), seed=0).test
    assert (empty.human, unknown.human) == (Mask.from_spans([], 6), None)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_and_climbing_paths_in_a_tar_do_no_harm(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    rows = [GOOD, annotation("x", "POS", docids=["link.txt"])]
    path = write_tar(tmp_path / "c.tar", files(test=rows) | {"../../evil.txt": b"evil"})
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("corpus/docs/link.txt")
        link.type, link.linkname = kind, str(tmp_path / "secret.txt")
        tar.addfile(link)
    with pytest.raises(DataError, match=r"test\.jsonl, line 2: there is no document 'link\.txt'"):
        load_splits(path, DEFAULT, seed=0)
    assert {item.name for item in tmp_path.iterdir()} == {"c.tar", "secret.txt"}


TWO = {f"{name}/{file}": data for name in ("one", "two") for file, data in files().items()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            files(val=[annotation("b.txt", "NEG", [evidence("b.txt", 2, 9)])]),
            r"val\.jsonl, line 1: the rationale span \(2, 9\) does not fit a document of 4 words",
        ),
        (files(val=[annotation("../z.txt:0", "P")]), r"val\.jsonl, line 1: there is no document '\.\./z\.txt'"),
        (files(val=[{**GOOD, "evidences": [["x"]]}]), r"val\.jsonl, line 1: the evidences are not groups of spans"),
        *(
            (files(val=[{**GOOD, "docids": docids}]), "line 1: docids must be a list of document names")
            for docids in ([["b.txt"]], "b.txt", 1.5, [None])
        ),
        (files(val=[]), r"c\.tar/val\.jsonl holds no rows"),
        (
            files() | {"docs.jsonl": b'{"docid": "x"}\n'},
            r"corpus/docs\.jsonl, line 1: a document needs a docid and a document, both text",
        ),
        (files() | {"docs.jsonl": b"{"}, r"corpus/docs\.jsonl, line 1: broken JSON \("),
        (files() | {"docs/z.txt": "é x".encode("latin-1")}, r"corpus/docs/z\.txt: not UTF-8 \(invalid continuation"),
        ({"notes.txt": b"hello"}, r"c\.tar is not an ERASER corpus: it needs train\.jsonl, and docs/ or docs\.jsonl"),
        (TWO, r"c\.tar holds two files for train"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_refused(tmp_path: Path, content: dict[str, bytes], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_splits(write_tar(tmp_path / "c.tar", content), DEFAULT, seed=0)


@pytest.mark.parametrize("filler", [b"\0", b"a "], ids=["zeros", "words"])
def test_a_tar_that_unpacks_to_far_more_is_refused(tmp_path: Path, filler: bytes) -> None:
    content = files() | {"docs/z.txt": filler * (20 * 1024**2 // len(filler))}
    with pytest.raises(DataError, match=r"^c\.tar\.gz: it unpacks to more than 100 times its size.*max_unpacked"):
        load_splits(write_tar(tmp_path / "c.tar.gz", content), DEFAULT, seed=0)


@pytest.mark.parametrize("where", ["docs/z.txt", "docs.jsonl", "train.jsonl"])
def test_a_document_that_is_too_large_is_refused(tmp_path: Path, where: str) -> None:
    text = "a " * 1024**2
    line = {"docs.jsonl": {"docid": "z.txt", "document": text}, "train.jsonl": {**GOOD, "query": text}}.get(where)
    large = json.dumps(line).encode() + b"\n" if line else text.encode()
    content = files() | {where: large + (json.dumps(BAD).encode() if where == "train.jsonl" else b"")}
    for path in (write_tar(tmp_path / "c.tar", content), write_folder(tmp_path / "folder", content)):
        with pytest.raises(DataError, match=rf"{where}(, line 1)?: the row is larger than 1 MB.*max_row_mb"):
            load_splits(path, DataConfig(max_row_mb=1), seed=0)
        load_splits(path, DataConfig(max_row_mb=3), seed=0)


def test_a_file_with_holes_in_a_tar_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.tar", sparse_tar("corpus/docs/z.txt"))
    with pytest.raises(DataError, match=r"c\.tar: corpus/docs/z\.txt has holes.*--sparse"):
        load_splits(path, DEFAULT, seed=0)


@pytest.mark.parametrize("name", ["c.tar", "c.tar.gz"])
def test_a_broken_or_missing_tar_is_refused(tmp_path: Path, name: str) -> None:
    path = write_tar(tmp_path / name, files())
    whole = path.read_bytes()
    with pytest.raises(DataError, match=r"missing\.tar\.gz does not exist"):
        load_splits(tmp_path / "missing.tar.gz", DEFAULT, seed=0)
    for content in (b"nonsense", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{name}: broken tar \("):
            load_splits(path, DEFAULT, seed=0)
