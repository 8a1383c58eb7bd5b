"""Corpora in the layout of the ERASER benchmark (DeYoung et al., 2020): a folder, or a tar that is read in place."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from fresh.data.config import LIMITS, ReadLimits
from fresh.data.readers import GZIP_MAGIC, Row, check_span, check_unpacked, parse_json_lines, refuse_empty
from fresh.errors import DataError, RowError

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
SPLIT_FILES = {"train.jsonl": "train", "val.jsonl": "dev", "dev.jsonl": "dev", "test.jsonl": "test"}
FIX = "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."


class _Evidence(NamedTuple):
    docid: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EraserCorpus:
    """The documents and annotations of a corpus."""

    name: str
    documents: Mapping[str, str]
    """Texts by document name."""
    n_words: Mapping[str, int]
    """Numbers of words by document name."""
    annotations: Mapping[str, tuple[str, bytes]]
    """File name and JSON lines by split."""
    limits: ReadLimits = LIMITS

    def read_rows(self, split: str) -> Iterator[Row]:
        """Read the rows of a split: id, text, label, query, and a rationale in words."""
        file, content = self.annotations[split]
        name = f"{self.name}/{file}"
        for row in refuse_empty(parse_json_lines(io.BytesIO(content), name, self.limits), name):
            try:
                yield row if row.error else self._join(row)
            except RowError as error:
                yield replace(row, values={}, error=error)

    def _join(self, row: Row) -> Row:
        evidence = _parse_evidence(row)
        names = self._find_documents(row, evidence or ())
        sizes = [self.n_words[name] for name in names]
        starts = dict(zip(names, (np.cumsum(sizes) - sizes).tolist(), strict=True))
        spans = None if evidence is None else tuple(self._shift(row, item, starts[item.docid]) for item in evidence)
        values: dict[str, Any] = {
            "id": row.values.get("annotation_id"),
            "text": "\n".join(self.documents[name] for name in names),
            "label": row.values.get("classification"),
            "query": row.values.get("query"),
            "rationale": None if spans is None else [(start, end) for start, end in spans if start < end],
        }
        return replace(row, values=values, parts=tuple(zip(names, sizes, strict=True)), evidence=spans)

    def _find_documents(self, row: Row, evidence: Sequence[_Evidence]) -> list[str]:
        """List the documents of an annotation: those in docids and evidence, or the one that its id names."""
        docids = row.values.get("docids") or []
        if not isinstance(docids, list) or not all(isinstance(name, str) for name in docids):
            raise RowError(row.place, "docids must be a list of document names.", FIX)
        names = list(dict.fromkeys([*docids, *(item.docid for item in evidence)]))
        if not names:
            whole = str(row.values.get("annotation_id"))
            names = [whole if whole in self.documents else whole.partition(":")[0]]
        missing = next((name for name in names if name not in self.documents), None)
        if missing is not None:
            raise RowError(row.place, f"there is no document {missing!r}.", "Put it into docs/ or docs.jsonl.")
        return names

    def _shift(self, row: Row, item: _Evidence, offset: int) -> tuple[int, int]:
        n_words = self.n_words[item.docid]
        # ERASER has empty spans, which its scorer counts as spans that nothing can match: they stay, inside their
        # own document.
        if item.start == item.end:
            inside = offset + max(0, min(item.start, n_words - 1))
            return inside, inside
        check_span(item.start, item.end, n_words, "words", row.place)
        return offset + item.start, offset + item.end


def _parse_evidence(row: Row) -> list[_Evidence] | None:
    groups = row.values.get("evidences")
    if groups is None:
        return None
    try:
        return [_Evidence(str(e["docid"]), int(e["start_token"]), int(e["end_token"])) for g in groups for e in g]
    except (KeyError, TypeError, ValueError) as error:
        problem = "the evidences are not groups of spans with docid, start_token and end_token."
        raise RowError(row.place, problem, FIX) from error


def is_eraser(path: Path) -> bool:
    """Recognize an ERASER folder, or a tar."""
    if path.is_dir():
        return (path / "train.jsonl").is_file() and ((path / "docs").is_dir() or (path / "docs.jsonl").is_file())
    return path.name.lower().endswith(TAR_ENDINGS)


def open_eraser(path: Path, limits: ReadLimits = LIMITS) -> EraserCorpus:
    """Read all files of an ERASER folder or tar."""
    documents: dict[str, str] = {}
    annotations: dict[str, tuple[str, bytes]] = {}
    for name, content in _read_folder(path) if path.is_dir() else _read_tar(path, limits):
        folders = name.parts[:-1]
        if "docs" in folders:
            documents["/".join(name.parts[folders.index("docs") + 1 :])] = _decode(
                content, f"{path.name}/{name}", limits
            )
        elif name.name == "docs.jsonl":
            documents.update(_parse_documents(content, f"{path.name}/{name}", limits))
        elif name.name in SPLIT_FILES:
            split = SPLIT_FILES[name.name]
            if split in annotations:
                raise DataError(f"{path.name} holds two files for {split}. Give a tar or folder of one corpus.")
            annotations[split] = (name.name, content)
    if "train" not in annotations or not documents:
        raise DataError(f"{path.name} is not an ERASER corpus: it needs train.jsonl, and docs/ or docs.jsonl. {FIX}")
    n_words = {name: len(text.split()) for name, text in documents.items()}
    return EraserCorpus(path.name, documents, n_words, annotations, limits)


def _parse_documents(content: bytes, name: str, limits: ReadLimits) -> Iterator[tuple[str, str]]:
    for row in parse_json_lines(io.BytesIO(content), name, limits):
        if row.error:
            raise row.error
        docid, text = row.values.get("docid"), row.values.get("document")
        if not isinstance(docid, str) or not isinstance(text, str):
            raise DataError(f"{row.place}: a document needs a docid and a document, both text. {FIX}")
        yield docid, text


def _decode(content: bytes, name: str, limits: ReadLimits) -> str:
    if len(content) > limits.row_bytes:
        raise limits.row_error(name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 ({error.reason}). Save the file in UTF-8.") from error


def _read_folder(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    paths = [folder / name for name in (*SPLIT_FILES, "docs.jsonl")]
    for path in (*paths, *sorted((folder / "docs").rglob("*"))):
        if path.is_file() and not path.name.startswith("."):
            yield PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes()


def _read_tar(path: Path, limits: ReadLimits) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Read the regular files of a tar without extracting it."""
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the spelling and the folder.")
    # By its content, because tars are often renamed.
    with path.open("rb") as file:
        compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    try:
        if compressed:
            check_unpacked(path, path.name, limits)
        with tarfile.open(path, "r:gz" if compressed else "r:") as tar:
            for member in tar:
                # A few bytes of a sparse file can stand for a terabyte of zeros.
                if member.issparse():
                    raise DataError(f"{path.name}: {member.name} has holes. Pack the tar again without --sparse.")
                # Nothing is extracted and no link is followed: names such as ../../file do no harm.
                name = PurePosixPath(member.name)
                content = tar.extractfile(member) if member.isreg() and not name.name.startswith(".") else None
                if content is not None:
                    yield name, content.read()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path.name}: broken tar ({error}). Download or pack the file again.") from error
