import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import annotated
from annotated import explanation
from fresh.data.annotation import TOOLS, Exported, export
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.rationale import Prediction


def film(text: str = "A lovely film", query: str = "", id: str = "r-1") -> Explanation:
    return explanation(Document.from_text(text, query, id), Mask(np.array([False, True, False])))


def test_a_task_of_label_studio(tmp_path: Path) -> None:
    [task] = annotated.exported([film()], tmp_path, "label_studio")
    about = {"to_name": "text", "origin": "prediction"}
    span = {"start": 2, "end": 8, "text": "lovely", "labels": ["RATIONALE"]}
    assert task == {
        "data": {"id": "r-1", "text": "A lovely film"},
        "predictions": [
            {
                "model_version": "fresh",
                "score": 0.875,
                "result": [
                    {"id": "span-1", "from_name": "rationale", "type": "labels", "value": span, **about},
                    {"id": "class", "from_name": "label", "type": "choices", "value": {"choices": ["good"]}, **about},
                ],
            }
        ],
    }


def test_the_configuration_of_label_studio(tmp_path: Path) -> None:
    prediction = Prediction('so "so" & <so>', {'so "so" & <so>': 0.5, "good": 0.5})
    document = Document.from_text("A film", "Is it?")
    export(
        [Explanation(document, Mask.full(2), document.cut(Mask.full(2)), prediction)],
        tmp_path / "tasks.json",
        "label_studio",
    )
    content = (tmp_path / "tasks.config.xml").read_text(encoding="utf-8")
    assert content == (
        "<View>\n"
        '  <Header value="$query"/>\n'
        '  <Labels name="rationale" toName="text">\n'
        '    <Label value="RATIONALE" background="#ffc069"/>\n'
        "  </Labels>\n"
        '  <Text name="text" value="$text" granularity="word"/>\n'
        '  <Choices name="label" toName="text" choice="single" showInLine="true">\n'
        '    <Choice value="good"/>\n'
        "    <Choice value='so \"so\" &amp; &lt;so&gt;'/>\n"
        "  </Choices>\n"
        "</View>\n"
    )
    choices = ElementTree.fromstring(content).iter("Choice")  # noqa: S314
    assert [choice.get("value") for choice in choices] == ["good", 'so "so" & <so>']


def test_a_line_of_doccano(tmp_path: Path) -> None:
    [line] = annotated.exported([film(query="Is it good?")], tmp_path, "doccano")
    assert line == {
        "id": "r-1",
        "text": "A lovely film",
        "cats": ["good"],
        "entities": [[2, 8, "RATIONALE"]],
        "probability": 0.875,
        "query": "Is it good ?",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_a_line_of_potato(tmp_path: Path) -> None:
    [line] = annotated.exported([film()], tmp_path, "potato")
    assert line == {
        "id": "r-1",
        "text": "A lovely film",
        "predictions": {
            "label": "good",
            "rationale": [{"start": 2, "end": 8, "label": "RATIONALE"}],
            "confidence": 0.875,
        },
    }


def test_the_settings_of_potato(tmp_path: Path) -> None:
    annotated.exported([film()], tmp_path, "potato")
    content = (tmp_path / "tasks.config.yaml").read_text(encoding="utf-8")
    assert content == (
        "# Potato:  potato start tasks.config.yaml -p 8000\n"
        "annotation_task_name: Rationales\n"
        "task_dir: .\n"
        'output_annotation_dir: "tasks-annotated"\n'
        'data_files: ["tasks.jsonl"]\n'
        "item_properties: {id_key: id, text_key: text}\n"
        "user_config: {allow_all_users: true, users: []}\n"
        "pre_annotation: {enabled: true, field: predictions, allow_modification: true, show_confidence: true}\n"
        "annotation_schemes:\n"
        "  - annotation_type: radio\n"
        "    name: label\n"
        "    description: Which class is it?\n"
        '    labels: ["bad", "good"]\n'
        "  - annotation_type: span\n"
        "    name: rationale\n"
        "    description: Mark the words that show it.\n"
        "    labels: [RATIONALE]\n"
        "instance_display:\n"
        "  fields:\n"
        "    - {key: text, type: text, span_target: true, display_options: {preserve_whitespace: true}}\n"
    )


def test_queries_are_shown_in_potato(tmp_path: Path) -> None:
    [line] = annotated.exported([film(query="Is it?")], tmp_path, "potato")
    assert line["query"] == "Is it ?"
    content = (tmp_path / "tasks.config.yaml").read_text(encoding="utf-8")
    assert "  fields:\n    - {key: query, type: text}\n    - {key: text, type: text," in content


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_written_is_told(tmp_path: Path, tool: str) -> None:
    path = tmp_path / f"tasks{TOOLS[tool].ending}"
    found = export((film(id=str(i)) for i in range(3)), str(path), tool)
    settings = [tmp_path / f"tasks{TOOLS[tool].settings_ending}"] if TOOLS[tool].settings_ending else []
    assert found == Exported(3, (path, *settings))
    assert sorted(tmp_path.iterdir()) == sorted(found.files)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_broken_off_export_leaves_what_was_there(tmp_path: Path, tool: str) -> None:
    path = tmp_path / f"tasks{TOOLS[tool].ending}"
    path.write_text("before")

    def broken_off() -> Iterator[Explanation]:
        yield film()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(broken_off(), path, tool)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_explanations_are_written_as_they_come(tmp_path: Path) -> None:
    seen: list[int] = []

    def watched() -> Iterator[Explanation]:
        for number in range(3000):
            seen.append((tmp_path / "tasks.jsonl.partial").stat().st_size if number > 1 else 0)
            yield film(id=str(number))

    export(watched(), tmp_path / "tasks.jsonl", "doccano")
    assert 0 < seen[1500] < seen[-1]


@pytest.mark.parametrize("tool", TOOLS)
def test_documents_without_a_name_get_one(tmp_path: Path, tool: str) -> None:
    lines = annotated.exported([film(id=""), film(id="x"), film(id="")], tmp_path, tool)
    names = [line["data"]["id"] if tool == "label_studio" else line["id"] for line in lines]
    assert names == ["document-1", "x", "document-3"]


@pytest.mark.parametrize("tool", TOOLS)
def test_all_characters_are_written_as_they_are(tmp_path: Path, tool: str) -> None:
    annotated.exported([film("A 😀 film")], tmp_path, tool)
    content = (tmp_path / f"tasks{TOOLS[tool].ending}").read_text(encoding="utf-8")
    assert "A 😀 film" in content


def fails(path: Path, tool: str, *explanations: Explanation) -> str:
    with pytest.raises(DataError) as caught:
        export(explanations, path, tool)
    assert not path.exists()
    assert not list(path.parent.glob("*.partial"))
    return str(caught.value)


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    assert fails(path, "label_studio") == "There is nothing to export: no text was explained."
    assert fails(path, "doccano", film()) == (
        "doccano reads .jsonl files, but the output is tasks.json. Give it the ending .jsonl."
    )
    assert fails(path, "labelstudio", film()) == (
        "labelstudio is not a tool that can be exported to. Did you mean label_studio?"
    )
    inside = tmp_path / "none" / "tasks.json"
    assert fails(inside, "label_studio", film()) == f"There is no folder {inside.parent} to write to. Make it first."


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    assert fails(tmp_path / "tasks.json", "label_studio", film("A \ud800 film", id="h")) == (
        "The text of document 'h' holds half a character (surrogates not allowed). Mend it, or leave it out."
    )


def test_the_list_of_tasks_is_json_on_lines(tmp_path: Path) -> None:
    annotated.exported([film(), film(id="r-2")], tmp_path, "label_studio")
    first, one, two, last = (tmp_path / "tasks.json").read_text(encoding="utf-8").splitlines()
    assert (first, last) == ("[", "]")
    assert re.fullmatch(r"\{.*\},", one)
    assert json.loads(two)["data"]["id"] == "r-2"
