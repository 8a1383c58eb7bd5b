import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import annotated
from annotated import Record, explanation
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.text import split_words
from strategies import flags, texts

WAYS: dict[str, tuple[str, Callable[[Sequence[Record]], list[Record]], str]] = {
    "label_studio": ("label_studio", annotated.label_studio, "export.json"),
    "json_min": ("label_studio", annotated.json_min, "export.json"),
    "doccano": ("doccano", annotated.doccano, "export.jsonl"),
    "doccano_sequences": ("doccano", annotated.doccano_sequences, "export.jsonl"),
}


def raw_texts() -> st.SearchStrategy[str]:
    """Texts with words and without half characters: emoji, marks, line breaks, tabs, every script."""
    return texts(min_size=1).map(lambda text: text.encode("utf-8", "ignore").decode()).filter(split_words)


@st.composite
def explanations(draw: st.DrawFn, tokenised: bool = False) -> list[Explanation]:
    """Explanations of a few texts."""
    split = Document.from_tokenized if tokenised else Document.from_text
    found = []
    for number, text in enumerate(draw(st.lists(raw_texts(), min_size=1, max_size=3))):
        document = split(text, None, f"d{number}")
        label = draw(st.sampled_from(("good", "bad")))
        found.append(explanation(document, Mask(np.array(draw(flags(len(document.words))))), label))
    return found


def come_back(way: str, given: Sequence[Explanation], tokenised: bool) -> None:
    tool, by_people, name = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        tasks = annotated.exported(given, Path(folder), tool)
        write = annotated.write_list if name.endswith(".json") else annotated.write_lines
        found = annotated.read(write(Path(folder) / name, by_people(tasks)), tokenised=tokenised)
    for before, after in zip(given, found, strict=True):
        assert after.document.text == before.document.text
        assert after.document.words == before.document.words
        assert after.label == before.prediction.label
        assert after.human == (before.mask if before.mask.kept.any() else None)
        assert way == "json_min" or after.document.id == before.document.id


@pytest.mark.parametrize("way", WAYS)
@given(explanations())
def test_masks_come_back_from_raw_text(way: str, given: list[Explanation]) -> None:
    come_back(way, given, tokenised=False)


@pytest.mark.parametrize("way", WAYS)
@given(explanations(tokenised=True))
def test_masks_come_back_from_tokenised_text(way: str, given: list[Explanation]) -> None:
    come_back(way, given, tokenised=True)


@pytest.mark.parametrize("way", WAYS)
def test_queries_come_back(way: str, tmp_path: Path) -> None:
    document = Document.from_text("A 😀 film", "Is it good?", "d")
    tool, by_people, _ = WAYS[way]
    tasks = annotated.exported([explanation(document, Mask.full(3))], tmp_path, tool)
    [found] = annotated.read(annotated.write_list(tmp_path / "answers.json", by_people(tasks)))
    assert found.document.query == ("Is", "it", "good", "?")


@pytest.mark.parametrize("tool", ["label_studio", "doccano"])
def test_what_the_model_marked_is_not_taken_for_what_people_marked(tool: str, tmp_path: Path) -> None:
    tasks = annotated.exported([explanation(Document.from_text("A film"), Mask.full(2))], tmp_path, tool)
    with pytest.raises(DataError) as caught:
        annotated.read(annotated.write_list(tmp_path / "tasks.json", tasks))
    assert str(caught.value) == (
        "No row can be used. Left out 1 of 1 rows: tasks.json, row 1: nobody has annotated it."
    )


EMOJI = "👩\u200d🚀 loves 𝒻𝒾𝓁𝓂𝓈\r\n\tand\u0301 𠮷野家."


def emoji_explanation(*kept: str) -> Explanation:
    document = Document.from_text(EMOJI, id="e-1")
    return explanation(document, Mask(np.array([word in kept for word in document.words])))


def test_label_studio_counts_code_points(tmp_path: Path) -> None:
    [task] = annotated.exported([emoji_explanation("𝒻𝒾𝓁𝓂𝓈", "and\u0301", "家")], tmp_path, "label_studio")
    values = [item["value"] for item in task["predictions"][0]["result"][:-1]]
    assert [(value["start"], value["end"]) for value in values] == [(10, 22), (25, 26)]
    assert [value["text"] for value in values] == ["𝒻𝒾𝓁𝓂𝓈\r\n\tand\u0301", "家"]
    assert all(EMOJI[value["start"] : value["end"]] == value["text"] for value in values)


def test_doccano_counts_utf16_code_units(tmp_path: Path) -> None:
    [line] = annotated.exported([emoji_explanation("𝒻𝒾𝓁𝓂𝓈", "and\u0301", "家")], tmp_path, "doccano")
    assert line["entities"] == [[12, 29, "RATIONALE"], [33, 34, "RATIONALE"]]
    units = EMOJI.encode("utf-16-le")
    cut = [units[2 * start : 2 * end].decode("utf-16-le") for start, end, _ in line["entities"]]
    assert cut == ["𝒻𝒾𝓁𝓂𝓈\r\n\tand\u0301", "家"]


def test_potato_counts_code_points(tmp_path: Path) -> None:
    [line] = annotated.exported([emoji_explanation("𝒻𝒾𝓁𝓂𝓈", "家")], tmp_path, "potato")
    marked = line["predictions"]["rationale"]
    assert [EMOJI[mark["start"] : mark["end"]] for mark in marked] == ["𝒻𝒾𝓁𝓂𝓈", "家"]
