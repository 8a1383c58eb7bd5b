"""Explanations from what `fresh explain` wrote and the texts that it read."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fresh.data.annotation.aggregate import check_texts, touched
from fresh.data.readers import Row
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError, RowError
from fresh.rationale import Prediction

SHAPE = "Give a file that fresh explain wrote."


def explained(rows: Iterable[Row], documents: Iterable[Document]) -> Iterator[Explanation]:
    """Put records and documents together again; both stand in the same order, and documents may be left over.

    :param rows: The records that `fresh explain` wrote, which hold no texts.
    :param documents: The texts that were explained.
    """
    rest = iter(documents)
    for row in rows:
        if row.error:
            raise row.error
        document = next((document for document in rest if document.id == row.values.get("id")), None)
        if document is None:
            problem = f"there is no document {row.values.get('id')!r} in the input, or not in this order."
            raise RowError(row.place, problem, "Give the file that was explained, with the same `text` and `id`.")
        yield _explanation_of(row, document)


def _explanation_of(row: Row, document: Document) -> Explanation:
    """Make an explanation of a record and its document."""
    values: Mapping[str, Any] = row.values
    try:
        spans = [(int(item["start"]), int(item["end"])) for item in values["rationale"]]
        prediction = Prediction(str(values["label"]), {str(k): float(v) for k, v in values["probabilities"].items()})
        given = [str(item["text"]) for item in values["rationale"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{row.place}: this is no record of an explanation. {SHAPE}") from error
    check_texts(row, document.text, spans, given)
    mask = Mask.from_spans(touched(spans, document), len(document.words))
    return Explanation(document, mask, document.cut(mask), prediction)
