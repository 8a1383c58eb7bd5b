"""Corpora in the layout of the ERASER benchmark (DeYoung et al., 2020): a folder, or a tar that is read in place."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fresh.data.config import DEFAULTS, DataConfig
from fresh.data.readers import Row, check_span, check_unpacked, parse_json_lines, refuse_empty
from fresh.errors import DataError, RowError

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
SPLIT_FILES = {"train.jsonl": "train", "val.jsonl": "dev", "dev.jsonl": "dev", "test.jsonl": "test"}
FIX = "Keep the layout of the ERASER benchmark (DeYoung et al., 2020)."


def is_eraser(path: Path) -> bool:
    """Recognize an ERASER folder, or a tar."""
    if path.is_dir():
        return (path / "train.jsonl").is_file() and ((path / "docs").is_dir() or (path / "docs.jsonl").is_file())
    return path.name.lower().endswith(TAR_ENDINGS)


def read_eraser(path: Path, config: DataConfig = DEFAULTS) -> dict[str, Iterator[Row]]:
    """Read the rows of each split of an ERASER folder or tar: id, text, label, query, and a rationale in words."""
    files = _read_tar(path, config)
    if path.is_dir():
        paths = [*(path / name for name in (*SPLIT_FILES, "docs.jsonl")), *sorted((path / "docs").rglob("*"))]
        visible = (file for file in paths if file.is_file() and not file.name.startswith("."))
        files = ((PurePosixPath(file.relative_to(path).as_posix()), file.read_bytes()) for file in visible)
    documents: dict[str, str] = {}
    annotations: dict[str, tuple[str, bytes]] = {}
    for file, content in files:
        if "docs" in file.parts[:-1] or file.name == "docs.jsonl":
            documents.update(_parse_documents(file, content, f"{path.name}/{file}", config))
        elif file.name in SPLIT_FILES:
            split = SPLIT_FILES[file.name]
            if split in annotations:
                raise DataError(f"{path.name} holds two files for {split}. Give a tar or folder of one corpus.")
            annotations[split] = (f"{path.name}/{file.name}", content)
    if "train" not in annotations or not documents:
        raise DataError(f"{path.name} is not an ERASER corpus: it needs train.jsonl, and docs/ or docs.jsonl. {FIX}")
    texts = {name: (text, len(text.split())) for name, text in documents.items()}
    return {
        split: (_join(row, texts) for row in refuse_empty(parse_json_lines(io.BytesIO(content), name, config), name))
        for split, (name, content) in annotations.items()
    }


def _join(row: Row, texts: Mapping[str, tuple[str, int]]) -> Row:
    """Join the documents that an annotation is about, and move its evidence with them; keep what is wrong as its error.

    :param texts: Text and number of words by document name.
    """
    if row.error:
        return row
    try:
        evidence = _parse_evidence(row)
        names = _find_documents(row, [docid for docid, _, _ in evidence or ()], texts)
        sizes = [texts[name][1] for name in names]
        offsets = dict(zip(names, (np.cumsum(sizes) - sizes).tolist(), strict=True))
        spans = []
        for docid, start, end in evidence or ():
            offset, n_words = offsets[docid], texts[docid][1]
            if start != end:
                check_span(start, end, n_words, "words", row.place)
                spans.append((offset + start, offset + end))
            else:  # ERASER's scorer counts empty spans, which nothing can match: they stay, in their own document
                inside = offset + max(0, min(start, n_words - 1))
                spans.append((inside, inside))
    except RowError as error:
        return replace(row, values={}, error=error)
    values: dict[str, Any] = {
        "id": row.values.get("annotation_id"),
        "text": "\n".join(texts[name][0] for name in names),
        "label": row.values.get("classification"),
        "query": row.values.get("query"),
        "rationale": None if evidence is None else [(start, end) for start, end in spans if start < end],
    }
    parts = tuple(zip(names, sizes, strict=True))
    return replace(row, values=values, parts=parts, evidence=None if evidence is None else tuple(spans))


def _parse_evidence(row: Row) -> list[tuple[str, int, int]] | None:
    groups = row.values.get("evidences")
    if groups is None:
        return None
    try:
        return [(str(item["docid"]), int(item["start_token"]), int(item["end_token"])) for g in groups for item in g]
    except (KeyError, TypeError, ValueError) as error:
        problem = "the evidences are not groups of spans with docid, start_token and end_token."
        raise RowError(row.place, problem, FIX) from error


def _find_documents(row: Row, evidence: Iterable[str], texts: Container[str]) -> list[str]:
    """List the documents of an annotation: those in docids and evidence, or the one that its id names."""
    docids = row.values.get("docids") or []
    if not isinstance(docids, list) or not all(isinstance(name, str) for name in docids):
        raise RowError(row.place, "docids must be a list of document names.", FIX)
    names = list(dict.fromkeys([*docids, *evidence]))
    if not names:
        whole = str(row.values.get("annotation_id"))
        names = [whole if whole in texts else whole.partition(":")[0]]
    missing = next((name for name in names if name not in texts), None)
    if missing is not None:
        raise RowError(row.place, f"there is no document {missing!r}.", "Put it into docs/ or docs.jsonl.")
    return names


def _parse_documents(file: PurePosixPath, content: bytes, place: str, config: DataConfig) -> Iterator[tuple[str, str]]:
    """Parse names and texts: of the one document that a file in docs/ is, or of all in docs.jsonl."""
    if "docs" in file.parts[:-1]:
        if len(content) > config.row_bytes:
            raise config.row_error(place)
        try:
            yield "/".join(file.parts[file.parts.index("docs") + 1 :]), content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{place}: not UTF-8 ({error.reason}). Save the file in UTF-8.") from error
        return
    for row in parse_json_lines(io.BytesIO(content), place, config):
        if row.error:
            raise row.error
        docid, text = row.values.get("docid"), row.values.get("document")
        if not isinstance(docid, str) or not isinstance(text, str):
            raise DataError(f"{row.place}: a document needs a docid and a document, both text. {FIX}")
        yield docid, text


def _read_tar(path: Path, config: DataConfig) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Read the regular files of a tar without extracting it."""
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the spelling and the folder.")
    # By its content, because tars are often renamed.
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"  # how gzip files start
    try:
        if compressed:
            check_unpacked(path, path.name, config)
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
