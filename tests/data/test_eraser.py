import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.eraser import _Eraser, is_eraser, open_eraser
from fresh.data.splits import DataConfig, Splits, load_splits
from fresh.document import Mask
from fresh.errors import DataError

DOCS = {"a.txt": "it was a good\nfilm .\n", "b.txt": "a dull bad film", "deep/c.txt": "c d e"}


def span(docid: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": docid, "start_token": start, "end_token": end, "text": "?"}


def annotation(id: str, label: str, *groups: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"annotation_id": id, "classification": label, "evidences": list(groups), "query": "Good ?", **more}


GOOD = annotation("a.txt", "POS", [span("a.txt", 3, 5)], [span("a.txt", 0, 1), span("a.txt", 4, 6)])
BAD = annotation("b.txt", "NEG", [span("b.txt", 1, 2), span("b.txt", 3, 3)])
ROWS = {"train.jsonl": [GOOD, BAD], "val.jsonl": [BAD], "test.jsonl": [GOOD]}


def files(rows: dict[str, list[dict[str, Any]]], docs: dict[str, str] = DOCS) -> dict[str, bytes]:
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


def fails(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load_splits(path, DataConfig(), seed=0)
    return str(caught.value)


def check(splits: Splits) -> None:
    good, bad = splits.train
    assert good.document.words == ("it", "was", "a", "good", "film", ".")
    assert (good.document.id, good.document.query, good.label) == ("a.txt", ("Good", "?"), "POS")
    assert good.human == Mask.from_spans([(0, 1), (3, 6)], 6)
    assert (bad.human, bad.label) == (Mask.from_spans([(1, 2)], 4), "NEG")
    assert (splits.dev, splits.test) == ((bad,), (good,))


def test_a_folder_is_read(tmp_path: Path) -> None:
    check(load_splits(write_folder(tmp_path, files(ROWS)), DataConfig(), seed=0))


@pytest.mark.parametrize("name", ["c.tar", "c.tar.gz", "c.tgz"])
@pytest.mark.parametrize("root", ["corpus/", "./", ""])
def test_a_tar_is_read(tmp_path: Path, name: str, root: str) -> None:
    path = write_tar(tmp_path / name, files(ROWS), root)
    check(load_splits(str(path), DataConfig(), seed=0))
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_documents_may_stand_in_one_file(tmp_path: Path) -> None:
    content = files(ROWS, {})
    content["docs.jsonl"] = b"\n".join(json.dumps({"docid": k, "document": v}).encode() for k, v in DOCS.items())
    check(load_splits(write_folder(tmp_path, content), DataConfig(), seed=0))


def test_other_columns_of_the_settings_do_not_matter(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, files(ROWS))
    check(load_splits(folder, DataConfig(text="review", label="stars"), seed=0))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"evidences": [], "docids": ["b.txt"]}, "a dull bad film"),
        ({"evidences": [], "docids": None}, "it was a good film ."),
        ({"evidences": [], "annotation_id": "b.txt:0:1"}, "a dull bad film"),
        ({"evidences": [[span("deep/c.txt", 0, 1)]]}, "c d e"),
        ({"evidences": [[span("b.txt", 0, 1)]], "docids": ["deep/c.txt", "b.txt"]}, "c d e a dull bad film"),
    ],
)
def test_documents_are_found(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    rows = {**ROWS, "test.jsonl": [{**GOOD, **more}]}
    [example] = load_splits(write_folder(tmp_path, files(rows)), DataConfig(), seed=0).test
    assert " ".join(example.document.words) == words


def test_evidence_moves_with_its_document(tmp_path: Path) -> None:
    row = annotation("x", "POS", [span("b.txt", 1, 2)], [span("deep/c.txt", 0, 2)], docids=["deep/c.txt", "b.txt"])
    [example] = load_splits(write_folder(tmp_path, files({**ROWS, "test.jsonl": [row]})), DataConfig(), seed=0).test
    assert example.human is not None
    assert example.document.cut(example.human).words == ("c", "d", "dull")


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), max_size=6))
def test_the_mask_is_the_union_of_all_groups(spans: list[list[int]]) -> None:
    row = annotation("a", "POS", *([span("a", start, end)] for start, end in spans))
    corpus = _Eraser("c", {"a": "w " * 20}, {"a": 20}, {"train": ("train.jsonl", json.dumps(row).encode())})
    [read] = corpus.read_rows("train")
    covered = {word for start, end in spans for word in range(start, end)}
    assert set(Mask.from_spans(read.values["rationale"], 20).kept.nonzero()[0]) == covered


def test_no_evidence_and_no_word_about_evidence_are_told_apart(tmp_path: Path) -> None:
    rows = {**ROWS, "test.jsonl": [annotation("a.txt", "POS"), {**GOOD, "annotation_id": "a.txt:1", "evidences": None}]}
    empty, unknown = load_splits(write_folder(tmp_path, files(rows)), DataConfig(), seed=0).test
    assert empty.human == Mask.from_spans([], 6)
    assert unknown.human is None


def test_a_missing_dev_is_cut_off(tmp_path: Path) -> None:
    many = [{**row, "annotation_id": f"{row['annotation_id']}:{i}"} for i in range(10) for row in (GOOD, BAD)]
    splits = load_splits(write_folder(tmp_path, files({"train.jsonl": many})), DataConfig(), seed=0)
    assert [len(splits.train), len(splits.dev), len(splits.test)] == [16, 2, 2]


def test_links_and_climbing_paths_in_a_tar_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = write_tar(tmp_path / "c.tar", files(ROWS) | {"../../evil.txt": b"evil"})
    with tarfile.open(path, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"corpus/docs/link{kind.decode()}.txt")
            link.type, link.linkname = kind, str(tmp_path / "secret.txt")
            tar.addfile(link)
    assert set(open_eraser(path).documents) == set(DOCS)
    assert {item.name for item in tmp_path.iterdir()} == {"c.tar", "secret.txt"}


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    content = files(ROWS) | {"docs/._a.txt": b"\xff"}
    assert set(open_eraser(write_folder(tmp_path / "f", content)).documents) == set(DOCS)
    assert set(open_eraser(write_tar(tmp_path / "c.tar", content)).documents) == set(DOCS)


def test_an_eraser_corpus_is_recognised(tmp_path: Path) -> None:
    assert is_eraser(Path("movies.tar.gz"))
    assert not is_eraser(tmp_path)
    assert is_eraser(write_folder(tmp_path, files(ROWS)))


def test_a_bad_span_is_refused_or_left_out(tmp_path: Path) -> None:
    wrong = annotation("b.txt:9", "NEG", [span("b.txt", 2, 9)])
    path = write_tar(tmp_path / "c.tar", files({**ROWS, "val.jsonl": [BAD, wrong]}))
    assert fails(path) == (
        "c.tar/val.jsonl, line 2: the rationale span (2, 9) does not fit a document of 4 words. "
        "Spans count words from 0 and exclude their end."
    )
    assert len(load_splits(path, DataConfig(skip_bad=True), seed=0).dev) == 1


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files({**ROWS, "val.jsonl": [annotation("../z.txt:0", "POS")]}))
    assert fails(path) == ("c.tar/val.jsonl, line 1: there is no document '../z.txt'. Put it into docs/ or docs.jsonl.")


def test_evidence_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files({**ROWS, "val.jsonl": [{**GOOD, "evidences": [["x"]]}]}))
    assert fails(path) == (
        "c.tar/val.jsonl, line 1: the evidences are not groups of spans with docid, start_token and end_token. "
        "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."
    )


@pytest.mark.parametrize("docids", [[["b.txt"]], "b.txt", 1.5, [None]])
def test_docids_of_another_shape_are_refused(tmp_path: Path, docids: object) -> None:
    path = write_tar(tmp_path / "c.tar", files({**ROWS, "val.jsonl": [{**GOOD, "docids": docids}]}))
    assert fails(path) == (
        "c.tar/val.jsonl, line 1: docids must be a list of document names. "
        "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."
    )


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files({**ROWS, "val.jsonl": []}))
    assert fails(path) == "c.tar/val.jsonl holds no rows. Give one row for each document."


def test_broken_documents_are_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files(ROWS) | {"docs.jsonl": b'{"docid": "x"}\n'})
    assert fails(path) == (
        "c.tar/corpus/docs.jsonl, line 1: a document needs a docid and a document, both text. "
        "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."
    )
    path = write_tar(tmp_path / "d.tar", files(ROWS) | {"docs.jsonl": b"{"})
    assert fails(path).startswith("d.tar/corpus/docs.jsonl, line 1: broken JSON (")


def test_a_document_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files(ROWS) | {"docs/z.txt": "caf\u00e9 x".encode("latin-1")})
    assert fails(path) == (
        "c.tar/corpus/docs/z.txt: not UTF-8 (invalid continuation byte). Save the file in the encoding UTF-8."
    )


def test_a_tar_of_something_else_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", {"notes.txt": b"hello"})
    assert fails(path) == (
        "c.tar is no ERASER corpus: it needs train.jsonl, and docs/ or docs.jsonl. "
        "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."
    )


def test_a_tar_of_two_corpora_is_refused(tmp_path: Path) -> None:
    content = {f"{name}/{file}": data for name in ("one", "two") for file, data in files(ROWS).items()}
    path = write_tar(tmp_path / "c.tar", content)
    assert fails(path) == "c.tar holds more than one file for train. Give a tar or folder of one corpus."


def test_a_missing_tar_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.tar.gz"
    assert fails(path) == f"{path} does not exist. Look at the spelling and at the folder it is meant to be in."


@pytest.mark.parametrize("filler", [b"\0", b"a "], ids=["zeros", "words"])
def test_a_tar_that_unpacks_to_far_more_is_refused(tmp_path: Path, filler: bytes) -> None:
    path = write_tar(tmp_path / "c.tar.gz", files(ROWS) | {"docs/z.txt": filler * (20 * 1024**2 // len(filler))})
    assert fails(path) == (
        "c.tar.gz: it unpacks to more than 100 times its size, the limit that max_unpacked sets. "
        "If you trust the file, raise max_unpacked, or unpack it yourself."
    )


def test_a_tar_may_be_packed_whatever_it_is_called(tmp_path: Path) -> None:
    for name, other in (("c.tar", "d.tar.gz"), ("e.tar.gz", "f.tar")):
        check(load_splits(write_tar(tmp_path / name, files(ROWS)).rename(tmp_path / other), DataConfig(), seed=0))


@pytest.mark.parametrize("where", ["docs/z.txt", "docs.jsonl", "train.jsonl"])
def test_a_document_that_is_too_large_is_refused(tmp_path: Path, where: str) -> None:
    text = "a " * 1024**2
    line = {"docs.jsonl": {"docid": "z.txt", "document": text}, "train.jsonl": {**GOOD, "query": text}}.get(where)
    large = json.dumps(line).encode() + b"\n" if line else text.encode()
    content = files(ROWS) | {where: large + (json.dumps(BAD).encode() if where == "train.jsonl" else b"")}
    for path in (write_tar(tmp_path / "c.tar", content), write_folder(tmp_path / "folder", content)):
        with pytest.raises(DataError, match=rf"{where}(, line 1)?: the row is larger than 1 MB.*max_row_mb"):
            load_splits(path, DataConfig(max_row_mb=1), seed=0)
        load_splits(path, DataConfig(max_row_mb=3), seed=0)


def test_a_file_with_holes_in_a_tar_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "c.tar", files(ROWS))
    hole = tarfile.TarInfo("corpus/docs/z.txt")
    hole.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**40)}
    hole.size = 1
    with tarfile.open(path, "a", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(hole, io.BytesIO(b"a"))
    assert fails(path) == "c.tar: corpus/docs/z.txt has holes. Pack the tar again without --sparse."


@pytest.mark.parametrize("name", ["c.tar", "c.tar.gz"])
def test_a_broken_tar_is_refused(tmp_path: Path, name: str) -> None:
    path = write_tar(tmp_path / name, files(ROWS))
    whole = path.read_bytes()
    for content in (b"nonsense", whole[: len(whole) // 2]):
        path.write_bytes(content)
        message = fails(path)
        assert message.startswith(f"{name}: broken tar (")
        assert message.endswith("). Fetch or pack the file again.")
