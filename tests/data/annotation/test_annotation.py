import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

import annotated
import small
from annotated import Record, explanation
from data_files import write, write_folder
from fresh.cli.main import main
from fresh.data import DataConfig, Splits, load_splits
from fresh.data.annotation import FORMATS, TOOLS, ExportResult, _recognize, export, read_explanations, to_table
from fresh.data.readers import Row, read_rows
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError, FreshError
from fresh.rationale import Prediction
from fresh.reporting.console import to_record
from fresh.text import split_words
from strategies import documents, flags, masks, texts

TASK = {"id": 1, "data": {"text": "Good film"}, "annotations": [], "predictions": []}
FLAT = {"id": 1, "text": "Good film", "label": "good", "annotator": 1, "annotation_id": 2, "lead_time": 3.5}
CATS = {"id": 1, "text": "Good film", "cats": ["good"], "entities": [[0, 4, "RATIONALE"]], "Comments": []}
TEXTCAT = {"text": "Good film", "label": "good", "_input_hash": 1, "_task_hash": 2, "answer": "accept"}
SAMPLES: dict[str, list[dict[str, Any]]] = {
    "label_studio": [TASK, FLAT, {"data": {"text": "a"}, "predictions": []}, {"data": {}, "completions": []}],
    "doccano": [
        *(CATS, {**CATS, "label": "x"}, {"text": "a", "cats": []}),
        *({"text": "a", "label": label} for label in ([], ["x"], [[0, 1, "X"]])),
    ],
    "prodigy": [TEXTCAT, {"text": "a", "spans": [], "answer": "ignore"}],
    "potato": [
        {"id": "1", "displayed_text": "a", "label_annotations": {}, "span_annotations": [], "behavioral_data": {}},
        {"instance_id": "1", "user_id": "u", "labels": {}, "spans": {}, "links": {}},
    ],
    "tasks": [{"id": "1", "text": "a", "predictions": {"label": "x"}}],
    "explained": [{"id": "1", "label": "x", "probabilities": {"x": 1.0}, "rationale": [], "ratio": 0.0}],
    "annotations": [{"annotation_id": "1", "evidences": [], "classification": "x"}],
    "table": [
        *({}, {"text": "a", "label": "x"}, {"text": "a", "label": 1, "answer": "accept"}, {"text": "a", "data": 3}),
        {"text": "a", "label": "x", "entities": ["b"], "cats": []},
    ],
}


def film(text: str = "A lovely film", query: str = "", id: str = "r-1") -> Explanation:
    return explanation(Document.from_text(text, query, id), Mask(np.array([False, True, False])))


@pytest.mark.parametrize(
    ("kind", "record"), [(kind, record) for kind, records in SAMPLES.items() for record in records]
)
def test_a_file_is_recognized_by_its_content(kind: str, record: dict[str, Any]) -> None:
    assert _recognize(record) == kind


def test_every_format_has_a_sample() -> None:
    assert set(SAMPLES) | {"eraser"} == set(FORMATS)


@pytest.mark.parametrize(
    ("actual", "wanted", "message"),
    [
        ("doccano", "label_studio", r"doccano's JSON lines, not Label Studio's JSON\. Set format=doccano"),
        ("label_studio", "doccano", r"Label Studio's JSON, not doccano's JSON lines\. Set format=label_studio"),
        ("prodigy", "doccano", r"Prodigy's JSON lines, not doccano's JSON lines\. Set format=prodigy"),
        ("table", "prodigy", r"a table of texts and labels, not Prodigy's JSON lines\. Set format=table"),
        ("doccano", "table", r"doccano's JSON lines, not a table of texts and labels\. Set format=doccano"),
        ("tasks", "doccano", r"tasks for Potato, not doccano's JSON lines\. Give the file that the annotation tool"),
        ("explained", "label_studio", r"output of fresh explain, not Label Studio's JSON\. Give the file that"),
        ("eraser", "doccano", r"an ERASER corpus, not doccano's JSON lines\. Set format=eraser"),
        ("annotations", "eraser", r"the annotations of an ERASER corpus, not an ERASER corpus\. Give the folder"),
    ],
)
def test_a_format_other_than_the_setting_is_refused(tmp_path: Path, actual: str, wanted: Any, message: str) -> None:
    path = tmp_path / "reviews.json"
    if actual == "eraser":
        write_folder(path, {"docs/a": "", "train.jsonl": ""})
    else:
        write(path, [SAMPLES[actual][0]])
    with pytest.raises(DataError, match=rf"^reviews\.json looks like {message}"):
        load_splits(path, DataConfig(format=wanted), seed=0)


def test_the_first_readable_row_decides_the_format(read: Any) -> None:
    [example] = read("{", CATS, skip_bad=True)
    assert (example.label, example.human) == ("good", Mask(np.array([True, False])))
    with pytest.raises(DataError, match=r"^out\.jsonl, line 1: broken JSON"):
        read("{", "{", format="doccano")


NAMES = ("type", "value", "result", "start", "end", "text", "labels", "choices", "from_name")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.sampled_from(("good", "labels", "choices", "A 😀 film")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "record",
    [TASK, FLAT, CATS, TEXTCAT, *SAMPLES["potato"]],
    ids=["label_studio", "json_min", "doccano", "prodigy", "potato 1", "potato 2"],
)
@given(data=st.data())
def test_an_unexpected_value_is_an_error_of_its_row(record: dict[str, Any], data: st.DataObject) -> None:
    """Whatever a record holds, the next row is read."""
    changed = record | {name: data.draw(JSON) for name in data.draw(st.sets(st.sampled_from([*record, "spans"])))}
    if _recognize(changed) == _recognize(record):
        assert len(list(to_table(rows(changed | {"id": 1}, record | {"id": 2}), DataConfig()))) in (1, 2)


TARGET = {"to_name": "text", "origin": "prediction"}
SPAN = {"start": 2, "end": 8, "text": "lovely", "labels": ["RATIONALE"]}
RESULT = [
    {"id": "span-1", "from_name": "rationale", "type": "labels", "value": SPAN, **TARGET},
    {"id": "class", "from_name": "label", "type": "choices", "value": {"choices": ["good"]}, **TARGET},
]
FIELDS = {"id": "r-1", "text": "A lovely film", "query": "Is it ?"}
MARKED = [{"start": 2, "end": 8, "label": "RATIONALE"}]
TASKS = {
    "label_studio": {"data": FIELDS, "predictions": [{"model_version": "fresh", "score": 0.875, "result": RESULT}]},
    "doccano": {**FIELDS, "cats": ["good"], "entities": [[2, 8, "RATIONALE"]], "probability": 0.875},
    "potato": {**FIELDS, "predictions": {"label": "good", "rationale": MARKED, "confidence": 0.875}},
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_task_holds_the_text_and_what_the_model_says(tmp_path: Path, tool: str) -> None:
    assert annotated.exported([film(query="Is it?")], tmp_path, tool) == [TASKS[tool]]
    [task] = annotated.exported([film()], tmp_path, tool)
    assert _recognize(task) == ("tasks" if tool == "potato" else tool)
    assert "query" not in (task["data"] if tool == "label_studio" else task)


def test_the_configuration_of_label_studio(tmp_path: Path) -> None:
    prediction = Prediction('so "so" & <so>', {'so "so" & <so>': 0.5, "good": 0.5})
    document, mask = Document.from_text("A film", "Is it?"), Mask.full(2)
    export([Explanation(document, mask, document.cut(mask), prediction)], tmp_path / "tasks.json", "label_studio")
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


def test_the_configuration_of_potato(tmp_path: Path) -> None:
    annotated.exported([film(query="Is it?")], tmp_path, "potato")
    content = (tmp_path / "tasks.config.yaml").read_text(encoding="utf-8")
    assert content.startswith("# Potato 2:  potato start tasks.config.yaml -p 8000\n")
    radio = {"annotation_type": "radio", "name": "label", "description": "Which class is it?"}
    span = {"annotation_type": "span", "name": "rationale", "description": "Mark the words that show it."}
    target = {"span_target": True, "display_options": {"preserve_whitespace": True}}
    show = {"enabled": True, "field": "predictions", "allow_modification": True, "show_confidence": True}
    assert yaml.safe_load(content) == {
        "annotation_task_name": "Rationales",
        "task_dir": ".",
        "output_annotation_dir": "tasks-annotated",
        "data_files": ["tasks.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "user_config": {"allow_all_users": True, "users": []},
        "pre_annotation": show,
        "annotation_schemes": [radio | {"labels": ["bad", "good"]}, span | {"labels": ["RATIONALE"]}],
        "instance_display": {"fields": [{"key": "query", "type": "text"}, {"key": "text", "type": "text", **target}]},
    }


@pytest.mark.parametrize("tool", TOOLS)
def test_an_export_returns_its_files_and_an_interrupted_one_changes_nothing(tmp_path: Path, tool: str) -> None:
    path = tmp_path / f"tasks{TOOLS[tool].ending}"
    result = export((film(id=str(i)) for i in range(3)), str(path), tool)
    configs = [tmp_path / f"tasks{TOOLS[tool].config_ending}"] if TOOLS[tool].config_ending else []
    assert result == ExportResult(3, (path, *configs))
    assert sorted(tmp_path.iterdir()) == sorted(result.files)
    before = path.read_bytes()

    def interrupted() -> Iterator[Explanation]:
        yield film()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(interrupted(), path, tool)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == sorted(result.files)


def test_explanations_are_written_one_at_a_time(tmp_path: Path) -> None:
    sizes: list[int] = []

    def watched() -> Iterator[Explanation]:
        for number in range(3000):
            sizes.append((tmp_path / "tasks.jsonl.partial").stat().st_size if number > 1 else 0)
            yield film(id=str(number))

    export(watched(), tmp_path / "tasks.jsonl", "doccano")
    assert 0 < sizes[1500] < sizes[-1]


@pytest.mark.parametrize("tool", TOOLS)
def test_documents_without_an_id_are_numbered(tmp_path: Path, tool: str) -> None:
    lines = annotated.exported([film(id=""), film(id="x"), film("A 😀 film", id="")], tmp_path, tool)
    names = [line["data"]["id"] if tool == "label_studio" else line["id"] for line in lines]
    assert names == ["document-1", "x", "document-3"]
    assert "A 😀 film" in (tmp_path / f"tasks{TOOLS[tool].ending}").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "tool", "explanations", "message"),
    [
        ("tasks.json", "label_studio", [], "nothing to export"),
        ("tasks.json", "doccano", [film()], r"doccano reads \.jsonl files, but the output is tasks\.json"),
        ("tasks.json", "labelstudio", [film()], "labelstudio is not a tool .* Did you mean label_studio"),
        ("none/tasks.json", "label_studio", [film()], r"no folder .*none to write to"),
    ],
)
def test_an_impossible_export_is_refused(
    tmp_path: Path, name: str, tool: str, explanations: Sequence[Explanation], message: str
) -> None:
    with pytest.raises(FreshError, match=message):
        export(explanations, tmp_path / name, tool)
    assert not list(tmp_path.iterdir())


ROUND_TRIPS: dict[str, tuple[str, Callable[[Sequence[Record]], list[Record]]]] = {
    "label_studio": ("label_studio", annotated.label_studio),
    "json_min": ("label_studio", annotated.json_min),
    "doccano": ("doccano", annotated.doccano),
    "doccano_sequences": ("doccano", annotated.doccano_sequences),
    "prodigy": ("potato", annotated.prodigy),
    "potato": ("potato", annotated.potato),
}


@st.composite
def explanations(draw: st.DrawFn, tokenised: bool) -> list[Explanation]:
    """Explanations of a few texts with words: emoji, marks, line breaks, every script, but no lone surrogates."""
    split = Document.from_tokenized if tokenised else Document.from_text
    raw = texts(min_size=1).map(lambda text: text.encode("utf-8", "ignore").decode()).filter(split_words)
    items = []
    for number, text in enumerate(draw(st.lists(raw, min_size=1, max_size=3))):
        document = split(text, draw(st.sampled_from(("", "Is it 😀?"))), f"d{number}")
        mask = Mask(np.array(draw(flags(len(document.words)))))
        items.append(explanation(document, mask, draw(st.sampled_from(("good", "bad")))))
    return items


@pytest.mark.parametrize("tokenised", [False, True], ids=["raw", "tokenized"])
@pytest.mark.parametrize("name", ROUND_TRIPS)
@given(data=st.data())
@settings(max_examples=50)
def test_masks_survive_a_round_trip(name: str, tokenised: bool, data: st.DataObject) -> None:
    tool, annotate = ROUND_TRIPS[name]
    items = data.draw(explanations(tokenised))
    with tempfile.TemporaryDirectory() as folder:
        tasks = annotate(annotated.exported(items, Path(folder), tool))
        examples = annotated.read(write(Path(folder) / "export.jsonl", tasks), tokenised=tokenised)
    for before, after in zip(items, examples, strict=True):
        assert after.document.text == before.document.text
        assert (after.document.words, after.document.query) == (before.document.words, before.document.query)
        assert after.label == before.prediction.label
        assert after.human == (before.mask if before.mask.kept.any() else None)
        assert name == "json_min" or after.document.id == before.document.id


@pytest.mark.parametrize("tool", ["label_studio", "doccano"])
def test_predictions_are_not_read_as_annotations(tool: str, tmp_path: Path, refusal: Any) -> None:
    message = refusal(*annotated.exported([film()], tmp_path, tool))
    assert message.startswith("No row can be used.")
    assert "line 1: nobody has annotated it" in message


EMOJI = "👩\u200d🚀 loves 𝒻𝒾𝓁𝓂𝓈\r\n\tand\u0301 𠮷野家."


def test_spans_count_what_the_tool_counts(tmp_path: Path) -> None:
    document = Document.from_text(EMOJI, id="e-1")
    marked = ("𝒻𝒾𝓁𝓂𝓈", "and\u0301", "家")
    explained = explanation(document, Mask(np.array([word in marked for word in document.words])))
    assert explained.spans == ((10, 22), (25, 26))
    tasks = {tool: annotated.exported([explained], tmp_path, tool)[0] for tool in TOOLS}
    regions = [item["value"] for item in tasks["label_studio"]["predictions"][0]["result"][:-1]]
    assert [(region["start"], region["end"]) for region in regions] == [(10, 22), (25, 26)]
    assert [region["text"] for region in regions] == ["𝒻𝒾𝓁𝓂𝓈\r\n\tand\u0301", "家"]
    spans = tasks["potato"]["predictions"]["rationale"]
    assert [(span["start"], span["end"]) for span in spans] == [(10, 22), (25, 26)]
    assert tasks["doccano"]["entities"] == [[12, 29, "RATIONALE"], [33, 34, "RATIONALE"]]  # UTF-16 code units


def test_a_tagger_is_trained_on_the_export_of_a_tool(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        explanation(example.document, Mask.from_spans([(0, 1)], len(example.document.words)), label)
        for example, label in zip(small.some(toy).train, ["good", "bad"] * 24, strict=True)
    ]
    tasks = annotated.label_studio(annotated.exported(items, tmp_path, "label_studio"))
    first = tasks[0]["annotations"][0]["result"][0]["value"]
    first |= {"end": first["end"] - 1, "text": first["text"][:-1]}
    tasks[1]["annotations"] = []
    path = write(tmp_path / "export.json", json.dumps(tasks))
    options = [*small.options(encoders["bert"], epochs=1), "--human=1", "--tagger", "--no-baseline"]
    assert main(["train", str(path), "--out", str(tmp_path / "model"), *options]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "Left out 1 of 48 rows: export.json, row 2: nobody has annotated it. 1 span cut a word" in printed


def rows(*records: dict[str, Any]) -> list[Row]:
    return [Row(record, "explained.jsonl", f"line {i}", i) for i, record in enumerate(records, start=1)]


@given(documents(), st.data())
def test_explanations_survive_a_round_trip(document: Document, data: st.DataObject) -> None:
    before = explanation(document, data.draw(masks(document)))
    [after] = read_explanations(rows(json.loads(json.dumps(to_record(before)))), [document])
    assert after == before


def test_records_are_joined_with_their_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "explained.jsonl", (to_record(film(id=id)) for id in "ac"))
    joined = read_explanations(read_rows(path), (film(id=id).document for id in "abcd"))
    assert [(e.document.id, e.rationale.words) for e in joined] == [("a", ("lovely",)), ("c", ("lovely",))]


WRONG: tuple[dict[str, Any], ...] = ({"rationale": 3}, {"rationale": [{}]}, {"probabilities": None}, {"label": "new"})


@pytest.mark.parametrize(
    ("change", "document", "message"),
    [
        ({"id": "b"}, film(id="a").document, r"line 1: there is no document 'b' in the input, or not in this order"),
        ({}, Document.from_text("Another film", id="r-1"), r"the span \(2, 8\) should hold 'lovely'.* is 'other '"),
        *((change, film().document, "line 1: this is not a record of an explanation") for change in WRONG),
    ],
)
def test_records_that_do_not_fit_are_refused(change: dict[str, Any], document: Document, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_explanations(rows(to_record(film()) | change), [document]))
