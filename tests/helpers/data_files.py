"""Files of texts and labels: JSON lines, and corpora in the layout of ERASER."""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def json_lines(records: Iterable[Any]) -> str:
    """Write each record as JSON; strings are lines as they are."""
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def csv_table(records: Sequence[Mapping[str, Any]], delimiter: str = ",") -> str:
    """Write records as a table whose first line names the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write(path: Path, content: str | bytes | Iterable[Any]) -> Path:
    """Write a file; anything but text becomes JSON lines, and the ending .gz packs it."""
    text = content if isinstance(content, str | bytes) else json_lines(content)
    encoded = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path


def write_folder(folder: Path, files: Mapping[str, Any]) -> Path:
    for name, content in files.items():
        write(folder / name, content)
    return folder


def write_tar(path: Path, files: Mapping[str, bytes], root: str = "corpus/") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(root + name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def sparse_tar(name: str = "corpus/docs/a.txt") -> bytes:
    """Make a tar with a file of a terabyte of nothing."""
    hole = tarfile.TarInfo(name)
    hole.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(2**40)}
    hole.size = 1
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(hole, io.BytesIO(b"a"))
    return written.getvalue()


def eraser_files(docs: Mapping[str, str], **splits: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
    """Make the files of a corpus from its documents and the annotations of each split."""
    annotations = {f"{split}.jsonl": json_lines(rows).encode() for split, rows in splits.items()}
    return annotations | {f"docs/{name}": text.encode() for name, text in docs.items()}


def review(text: Any = "Good film.", label: Any = "pos", **fields: Any) -> dict[str, Any]:
    return {"text": text, "label": label, **fields}


def annotation(id: str, label: str, *groups: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"annotation_id": id, "classification": label, "evidences": list(groups), "query": "Good ?", **fields}


def evidence(docid: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": docid, "start_token": start, "end_token": end, "text": "?"}
