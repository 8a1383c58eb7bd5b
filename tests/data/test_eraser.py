import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.corpora import CORPORA
from fresh.data.eraser import EraserCorpus, open_eraser
from fresh.data.splits import DataConfig, Splits, load_splits
from fresh.document import Example, Mask
from fresh.errors import DataError

DEFAULT = DataConfig()
DOCS = {"a.txt": "it was a good\nfilm .\n", "b.txt": "a dull bad film", "deep/c.txt": "c d e"}


def span(docid: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": docid, "start_token": start, "end_token": end, "text": "?"}


def annotation(id: str, label: str, *groups: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"annotation_id": id, "classification": label, "evidences": list(groups), "query": "Good ?", **fields}


GOOD = annotation("a.txt", "POS", [span("a.txt", 3, 5)], [span("a.txt", 0, 1), span("a.txt", 4, 6)])
BAD = annotation("b.txt", "NEG", [span("b.txt", 1, 2), span("b.txt", 3, 3)])
ROWS = {"train.jsonl": [GOOD, BAD], "val.jsonl": [BAD], "test.jsonl": [GOOD]}


def files(docs: dict[str, str] = DOCS, /, **splits: list[dict[str, Any]]) -> dict[str, bytes]:
    """Make the files of a corpus, with other annotations for some splits."""
    rows = {**ROWS, **{f"{split}.jsonl": records for split, records in splits.items()}}
    written = {name: "".join(json.dumps(row) + "\n" for row in split).encode() for name, split in rows.items()}
    return written | {f"docs/{name}": text.encode() for name, text in docs.items()}


def write_folder(folder: Path, content: dict[str, bytes]) -> Path:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_tar(path: Path, content: dict[str, bytes], root: str = "corpus/") -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(root + name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


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
    check(load_splits(folder, DataConfig(text="review", label="stars"), seed=0))


@pytest.mark.parametrize("name", ["c.tar", "c.tar.gz", "c.tgz"])
@pytest.mark.parametrize("root", ["corpus/", "./", ""])
def test_a_tar_is_read(tmp_path: Path, name: str, root: str) -> None:
    check(load_splits(str(write_tar(tmp_path / name, files(), root)), DEFAULT, seed=0))
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_the_name_of_a_tar_does_not_decide_its_compression(tmp_path: Path) -> None:
    for name, other in (("c.tar", "d.tar.gz"), ("e.tar.gz", "f.tar")):
        check(load_splits(write_tar(tmp_path / name, files()).rename(tmp_path / other), DEFAULT, seed=0))


def test_documents_may_be_in_one_file(tmp_path: Path) -> None:
    content = files({})
    content["docs.jsonl"] = b"\n".join(json.dumps({"docid": k, "document": v}).encode() for k, v in DOCS.items())
    check(load_splits(write_folder(tmp_path, content), DEFAULT, seed=0))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"evidences": [], "docids": ["b.txt"]}, "a dull bad film"),
        ({"evidences": [], "docids": None}, "it was a good film ."),
        ({"evidences": [], "annotation_id": "b.txt:0:1"}, "a dull bad film"),
        ({"evidences": [[span("deep/c.txt", 0, 1)]]}, "c d e"),
        ({"evidences": [[span("b.txt", 0, 1)]], "docids": ["deep/c.txt", "b.txt"]}, "c d e a dull bad film"),
    ],
)
def test_documents_are_found(tmp_path: Path, fields: dict[str, Any], text: str) -> None:
    assert " ".join(read_test_example(tmp_path, {**GOOD, **fields}).document.words) == text


def test_evidence_moves_with_its_document(tmp_path: Path) -> None:
    groups = [[span("b.txt", 1, 2), span("b.txt", 0, 0)], [span("a.txt", 5, 6)]]
    example = read_test_example(tmp_path, annotation("x", "POS", *groups, docids=["a.txt", "b.txt"]))
    assert example.document.parts == (("a.txt", 6), ("b.txt", 4))
    assert example.evidence == ((7, 8), (6, 6), (5, 6))
    assert example.human is not None
    assert example.document.cut(example.human).words == (".", "dull")


def test_spans_are_kept_as_they_are_but_once(tmp_path: Path) -> None:
    groups = [[span("a.txt", 3, 5), span("a.txt", 2, 2)], [span("a.txt", 0, 1), span("a.txt", 1, 2)]]
    example = read_test_example(tmp_path, annotation("x", "POS", *groups, [span("a.txt", 3, 5)], docids=["a.txt"]))
    assert example.evidence == ((3, 5), (2, 2), (0, 1), (1, 2))
    assert example.human == Mask.from_spans([(0, 2), (3, 5)], 6)


@pytest.mark.parametrize(("start", "place"), [(-1, 0), (0, 0), (5, 5), (6, 5), (99, 5)])
def test_an_empty_span_stays_inside_its_document(tmp_path: Path, start: int, place: int) -> None:
    row = annotation("a.txt", "POS", [span("a.txt", start, start)])
    assert read_test_example(tmp_path, row).evidence == ((place, place),)


def test_movies_keep_evidence_when_they_drop_the_query(tmp_path: Path) -> None:
    read_test_example(tmp_path, annotation("a.txt", "POS", [span("a.txt", 3, 4), span("a.txt", 4, 5)]))
    example = CORPORA["movies"].read(tmp_path).test[0]
    assert (example.document.query, example.evidence) == ((), ((3, 4), (4, 5)))
    assert example.document.parts == (("a.txt", 6),)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), max_size=6))
def test_the_mask_is_the_union_of_all_groups(spans: list[list[int]]) -> None:
    row = annotation("a", "POS", *([span("a", start, end)] for start, end in spans))
    corpus = EraserCorpus("c", {"a": "w " * 20}, {"a": 20}, {"train": ("train.jsonl", json.dumps(row).encode())})
    [read] = corpus.read_rows("train")
    covered = {word for start, end in spans for word in range(start, end)}
    assert set(Mask.from_spans(read.values["rationale"], 20).kept.nonzero()[0]) == covered


def test_no_evidence_differs_from_unknown_evidence(tmp_path: Path) -> None:
    rows = [annotation("a.txt", "POS"), {**GOOD, "annotation_id": "a.txt:1", "evidences": None}]
    empty, unknown = load_splits(write_folder(tmp_path, files(test=rows)), DEFAULT, seed=0).test
    assert (empty.human, unknown.human) == (Mask.from_spans([], 6), None)


def test_links_and_climbing_paths_in_a_tar_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = write_tar(tmp_path / "c.tar", files() | {"../../evil.txt": b"evil"})
    with tarfile.open(path, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"corpus/docs/link{kind.decode()}.txt")
            link.type, link.linkname = kind, str(tmp_path / "secret.txt")
            tar.addfile(link)
    assert set(open_eraser(path).documents) == set(DOCS)
    assert {item.name for item in tmp_path.iterdir()} == {"c.tar", "secret.txt"}


def test_hidden_files_are_skipped(tmp_path: Path) -> None:
    content = files() | {"docs/._a.txt": b"\xff"}
    assert set(open_eraser(write_folder(tmp_path / "f", content)).documents) == set(DOCS)
    assert set(open_eraser(write_tar(tmp_path / "c.tar", content)).documents) == set(DOCS)


def test_a_row_with_a_bad_span_can_be_left_out(tmp_path: Path) -> None:
    wrong = annotation("b.txt:9", "NEG", [span("b.txt", 2, 9)])
    path = write_tar(tmp_path / "c.tar", files(val=[BAD, wrong]))
    assert len(load_splits(path, DataConfig(skip_bad=True), seed=0).dev) == 1


TWO = {f"{name}/{file}": data for name in ("one", "two") for file, data in files().items()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            files(val=[annotation("b.txt", "NEG", [span("b.txt", 2, 9)])]),
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
    path = write_tar(tmp_path / "c.tar", files())
    hole = tarfile.TarInfo("corpus/docs/z.txt")
    hole.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**40)}
    hole.size = 1
    with tarfile.open(path, "a", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(hole, io.BytesIO(b"a"))
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
