"""Corpora in the layout of the ERASER benchmark (DeYoung et al., 2020): a folder, or a tar that is never unpacked."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from fresh.data.readers import (
    GZIP,
    LIMITS,
    ReadLimits,
    Row,
    check_span,
    check_unpacked,
    parse_json_lines,
    read_lines,
    refuse_empty,
)
from fresh.document import non_empty_spans
from fresh.errors import DataError, RowError
from fresh.text import Spans

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
SPLIT_FILES = {"train.jsonl": "train", "val.jsonl": "dev", "dev.jsonl": "dev", "test.jsonl": "test"}
WAY_OUT = "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."


@dataclass(frozen=True, slots=True)
class _Eraser:
    """The documents and the annotations of one corpus."""

    name: str
    documents: Mapping[str, str]
    """Texts by the name of their file."""
    n_words: Mapping[str, int]
    """How many words each text has."""
    annotations: Mapping[str, tuple[str, bytes]]
    """File name and JSON lines by split."""
    limits: ReadLimits = LIMITS

    def read_rows(self, split: str) -> Iterator[Row]:
        """Read the rows of a split: id, text, label, query, and a rationale that counts words."""
        file, content = self.annotations[split]
        name = f"{self.name}/{file}"
        for row in refuse_empty(parse_json_lines(read_lines(io.BytesIO(content), name, self.limits), name), name):
            yield row if row.error else self.join(row)

    def join(self, row: Row) -> Row:
        """Put an annotation and its documents together."""
        try:
            evidence = _evidence_of(row)
            names = self.names_of(row, evidence or ())
            starts = dict(zip(names, self.starts_of(names), strict=True))
            spans = None if evidence is None else tuple(self.place(row, item, starts) for item in evidence)
        except RowError as error:
            return Row({}, row.name, row.where, row.number, error)
        joined = tuple((name, self.n_words[name]) for name in names)
        values = self.values_of(row.values, names, spans)
        return Row(values, row.name, row.where, row.number, joined=joined, evidence=spans)

    def values_of(self, annotation: Mapping[str, Any], names: Sequence[str], spans: Spans | None) -> dict[str, Any]:
        """Write an annotation as the columns of a table; a rationale has no spans of no words."""
        return {
            "id": annotation.get("annotation_id"),
            "text": "\n".join(self.documents[name] for name in names),
            "label": annotation.get("classification"),
            "query": annotation.get("query"),
            "rationale": None if spans is None else list(non_empty_spans(spans)),
        }

    def names_of(self, row: Row, evidence: Sequence["_Evidence"]) -> list[str]:
        """Find the documents it lists and those its evidence is in; if there are none, the one it is named for."""
        listed = row.values.get("docids") or []
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise RowError(row.place, "docids must be a list of document names.", WAY_OUT)
        names = list(dict.fromkeys([*listed, *(item.docid for item in evidence)]))
        if not names:
            whole = str(row.values.get("annotation_id"))
            names = [whole if whole in self.documents else whole.partition(":")[0]]
        for name in names:
            if name not in self.documents:
                raise RowError(row.place, f"there is no document {name!r}.", "Put it into docs/ or docs.jsonl.")
        return names

    def starts_of(self, names: Sequence[str]) -> Iterator[int]:
        """Count the words that stand before each document when they are read one after the other."""
        start = 0
        for name in names:
            yield start
            start += self.n_words[name]

    def place(self, row: Row, item: "_Evidence", starts: Mapping[str, int]) -> tuple[int, int]:
        """Find where a piece of evidence stands in the joined documents; one of no words is kept inside its own."""
        n_words, before = self.n_words[item.docid], starts[item.docid]
        if item.start == item.end:
            inside = before + max(0, min(item.start, n_words - 1))
            return inside, inside
        check_span(item.start, item.end, n_words, "words", row.place)
        return before + item.start, before + item.end


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Some words of one document that speak for the label."""

    docid: str
    start: int
    end: int


def _evidence_of(row: Row) -> list[_Evidence] | None:
    """Read the evidence of all groups; nothing if the annotation does not say."""
    groups = row.values.get("evidences")
    if groups is None:
        return None
    try:
        return [_Evidence(str(e["docid"]), int(e["start_token"]), int(e["end_token"])) for g in groups for e in g]
    except (KeyError, TypeError, ValueError) as error:
        problem = "the evidences are not groups of spans with docid, start_token and end_token."
        raise RowError(row.place, problem, WAY_OUT) from error


def is_eraser(path: Path) -> bool:
    """Tell whether a path leads to an ERASER folder or to a tar."""
    if path.is_dir():
        return (path / "train.jsonl").is_file() and ((path / "docs").is_dir() or (path / "docs.jsonl").is_file())
    return path.name.lower().endswith(TAR_ENDINGS)


def open_eraser(path: Path, limits: ReadLimits = LIMITS) -> _Eraser:
    """Read all files of an ERASER folder or tar."""
    documents: dict[str, str] = {}
    annotations: dict[str, tuple[str, bytes]] = {}
    for name, content in _read_folder(path) if path.is_dir() else _read_tar(path, limits):
        docid = _docid_of(name)
        if docid:
            if len(content) > limits.row_bytes:
                raise limits.row_too_large(f"{path.name}/{name}")
            documents[docid] = _decode(content, f"{path.name}/{name}")
        elif name.name == "docs.jsonl":
            documents.update(_parse_documents(content, f"{path.name}/{name}", limits))
        elif name.name in SPLIT_FILES:
            split = SPLIT_FILES[name.name]
            if split in annotations:
                raise DataError(
                    f"{path.name} holds more than one file for {split}. Give a tar or folder of one corpus."
                )
            annotations[split] = (name.name, content)
    if "train" not in annotations or not documents:
        raise DataError(f"{path.name} is no ERASER corpus: it needs train.jsonl, and docs/ or docs.jsonl. {WAY_OUT}")
    n_words = {name: len(text.split()) for name, text in documents.items()}
    return _Eraser(path.name, documents, n_words, annotations, limits)


def _docid_of(name: PurePosixPath) -> str:
    """Name the document that a file holds: its path below docs/; empty if it holds none."""
    folders = name.parts[:-1]
    return "/".join(name.parts[folders.index("docs") + 1 :]) if "docs" in folders else ""


def _parse_documents(content: bytes, name: str, limits: ReadLimits) -> Iterator[tuple[str, str]]:
    """Read documents that stand together in one file."""
    for row in parse_json_lines(read_lines(io.BytesIO(content), name, limits), name):
        if row.error:
            raise row.error
        docid, text = row.values.get("docid"), row.values.get("document")
        if not isinstance(docid, str) or not isinstance(text, str):
            raise DataError(f"{row.place}: a document needs a docid and a document, both text. {WAY_OUT}")
        yield docid, text


def _decode(content: bytes, name: str) -> str:
    """Decode a document."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 ({error.reason}). Save the file in the encoding UTF-8.") from error


def _read_folder(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Read the files of a folder that matter, and their paths in it."""
    paths = [folder / name for name in (*SPLIT_FILES, "docs.jsonl")]
    for path in (*paths, *sorted((folder / "docs").rglob("*"))):
        if path.is_file() and not path.name.startswith("."):
            yield PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes()


def _read_tar(path: Path, limits: ReadLimits) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Read the plain files in a tar, packed with gzip or not. Nothing is written, and links in it are not followed."""
    if not path.exists():
        raise DataError(f"{path} does not exist. Look at the spelling and at the folder it is meant to be in.")
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    try:
        if packed:
            check_unpacked(path, path.name, limits)
        with tarfile.open(path, "r:gz" if packed else "r:") as tar:
            for member in tar:
                if member.issparse():
                    raise DataError(f"{path.name}: {member.name} has holes. Pack the tar again without --sparse.")
                name = PurePosixPath(member.name)
                content = tar.extractfile(member) if member.isreg() and not name.name.startswith(".") else None
                if content is not None:
                    yield name, content.read()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path.name}: broken tar ({error}). Fetch or pack the file again.") from error
