"""Documents as compact JSON that can stand inside a page, whatever is in their texts."""

import json
import re
from collections.abc import Sequence
from typing import Any

from fresh.highlight import HTML_CONTROL_PICTURES
from fresh.reporting.html.view import DocumentView
from fresh.text import Spans, to_utf16

# What could end a script element, begin a comment in it, or is half a character.
UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def pack(documents: Sequence[DocumentView]) -> str:
    """Write documents as JSON, safe between script tags."""
    labels = list(dict.fromkeys(label for document in documents for label in _labels_of(document)))
    places = {label: place for place, label in enumerate(labels)}
    record = {
        "labels": [label.translate(HTML_CONTROL_PICTURES) for label in labels],
        "documents": [_pack_document(document, places) for document in documents],
    }
    written = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _labels_of(document: DocumentView) -> tuple[str, ...]:
    """Name every label that a document has to do with."""
    return (*document.probabilities, *((document.gold,) if document.gold is not None else ()))


def _pack_document(document: DocumentView, places: dict[str, int]) -> dict[str, Any]:
    """Turn a document into plain values; labels become their places."""
    text = document.text.translate(HTML_CONTROL_PICTURES)
    spans = to_utf16(text, document.spans)
    record: dict[str, Any] = {
        "id": document.id.translate(HTML_CONTROL_PICTURES),
        "text": text,
        "words": len(spans),
        "kept": _pack_kept(spans, document.kept),
        "label": places[document.label],
        "probabilities": [[places[label], round(share, 4)] for label, share in document.probabilities.items()],
    }
    if document.gold is not None:
        record["gold"] = places[document.gold]
    if document.human is not None:
        record["human"] = _pack_runs(spans, document.human)
    if document.query:
        record["query"] = document.query.translate(HTML_CONTROL_PICTURES)
    return record


def _pack_kept(spans: Spans, runs: Spans) -> list[list[int]]:
    """Write runs of words: for each word how far it stands behind the word before, and its length."""
    packed: list[list[int]] = []
    at = 0
    for first, after in runs:
        run: list[int] = []
        for start, end in spans[first:after]:
            run += (start - at, end - start)
            at = end
        packed.append(run)
    return packed


def _pack_runs(spans: Spans, runs: Spans) -> list[int]:
    """Write runs of words as stretches of text: how far each stands behind the one before, and its length."""
    packed: list[int] = []
    at = 0
    for first, after in runs:
        start, end = spans[first][0], spans[after - 1][1]
        packed += (start - at, end - start)
        at = end
    return packed
