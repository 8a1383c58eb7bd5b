import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotated import explanation
from fresh.data.annotation import explained
from fresh.data.readers import Row, read_rows
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.reporting.console import to_record
from strategies import documents, masks


def rows(*records: dict[str, Any]) -> list[Row]:
    return [Row(record, "explained.jsonl", f"line {i}", i) for i, record in enumerate(records, start=1)]


def film(id: str = "a") -> Explanation:
    return explanation(Document.from_text("A 😀 film", id=id), Mask(np.array([False, True, True])))


@given(documents(), st.data())
def test_explanations_come_back(document: Document, data: st.DataObject) -> None:
    before = explanation(document, data.draw(masks(document)))
    [after] = explained(rows(json.loads(json.dumps(to_record(before)))), [document])
    assert after == before


def test_a_file_and_its_documents_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "explained.jsonl"
    path.write_text("".join(json.dumps(to_record(film(id))) + "\n" for id in "ac"), encoding="utf-8")
    found = explained(read_rows(path), (film(id).document for id in "abcd"))
    assert [(e.document.id, e.rationale.words) for e in found] == [("a", ("😀", "film")), ("c", ("😀", "film"))]


def fails(record: dict[str, Any], document: Document) -> str:
    with pytest.raises(DataError) as caught:
        list(explained(rows(record), [document]))
    return str(caught.value)


def test_a_record_of_another_file_is_refused() -> None:
    assert fails(to_record(film("b")), film("a").document) == (
        "explained.jsonl, line 1: there is no document 'b' in the input, or not in this order. "
        "Give the file that was explained, with the same `text` and `id`."
    )


def test_a_record_of_another_text_is_refused() -> None:
    other = Document.from_text("Another film", id="a")
    assert fails(to_record(film()), other).startswith(
        "explained.jsonl, line 1: the span (2, 8) should hold '😀 film', but the text there is 'other '."
    )


@pytest.mark.parametrize("change", [{"rationale": 3}, {"probabilities": None}, {"label": "new"}, {"rationale": [{}]}])
def test_what_is_no_record_is_refused(change: dict[str, Any]) -> None:
    assert fails(to_record(film()) | change, film().document) == (
        "explained.jsonl, line 1: this is no record of an explanation. Give a file that fresh explain wrote."
    )


def test_a_broken_line_is_told(tmp_path: Path) -> None:
    path = tmp_path / "explained.jsonl"
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"^explained\.jsonl, line 1: broken JSON"):
        list(explained(read_rows(path), [film().document]))
