"""Files as other tools write them."""

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elsewhere import (
    SHOWN,
    annotation,
    answers,
    items,
    lines,
    make_asking,
    numbers,
    outcome,
    refusal,
    task,
    text_of,
    write,
)
from fresh.errors import StudyError
from fresh.study.answers import Answer
from fresh.study.importing import import_study
from fresh.study.overview import get_overview, read_answers
from fresh.study.raw_answers import MAX_TIMESTAMP, parse_timestamp
from fresh.study.store import Store

BATCH = (
    "HITId,HITTypeId,Title,Description,Keywords,Reward,CreationTime,MaxAssignments,RequesterAnnotation,"
    "AssignmentDurationInSeconds,AutoApprovalDelayInSeconds,Expiration,NumberOfSimilarHITs,LifetimeInSeconds,"
    "AssignmentId,WorkerId,AssignmentStatus,AcceptTime,SubmitTime,AutoApprovalTime,ApprovalTime,RejectionTime,"
    "RequesterFeedback,WorkTimeInSeconds,LifetimeApprovalRate,Last30DaysApprovalRate,Last7DaysApprovalRate"
)
SCALES = {"confidence": "pretty confident", "readability": "easy"}  # 3 and 4


def batch(path: Path, *rows: dict[str, str]) -> Path:
    """Results of a batch of Mechanical Turk."""
    extra = sorted({name for row in rows for name in row if name.startswith("Answer.")})
    return table(path, [*BATCH.split(","), "Input.item", "Input.text", *extra, "Approve", "Reject"], rows)


def table(path: Path, names: Sequence[str], rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        writer = csv.DictWriter(file, names, restval="", quoting=csv.QUOTE_NONNUMERIC, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def assignment(item: int, label: str = "pos", **others: str) -> dict[str, str]:
    """A page of crowd elements: all answers in one column, each with all its boxes."""
    boxes = {
        "label": {name: name == label for name in SHOWN},
        "confidence": {str(n): n == 3 for n in range(1, 5)},
        "readability": {str(n): n == 4 for n in range(1, 6)},
    }
    about = {"WorkerId": "A2", "AssignmentStatus": "Approved", "WorkTimeInSeconds": "61", "Input.item": str(item)}
    return {**about, "Answer.taskAnswers": json.dumps([boxes]), **others}


def test_mturk_crowd_elements_are_read(asking: Store, tmp_path: Path) -> None:
    one, two, three, *_ = items(asking)
    rows = [assignment(one), assignment(two, "neg"), assignment(three, Reject="too fast")]
    file = batch(tmp_path / "r.csv", *rows)
    left = ["r.csv, line 4: the answer of A2 was rejected in the other tool."]
    assert outcome(import_study(asking, "mturk", file)) == (2, 0, left)
    assert answers(asking) == [(one, Answer("pos", 3, 4, 61_000)), (two, Answer("neg", 3, 4, 61_000))]
    assert outcome(import_study(asking, "mturk", file)) == (0, 2, left)


def test_mturk_checkbox_columns_are_read(asking: Store, tmp_path: Path) -> None:
    first, _, third, *_ = numbers(asking)

    def worked(item: int, worker: str = "W1", **others: str) -> dict[str, str]:
        boxes = {f"Answer.label.{label}": str(label == "pos").lower() for label in ("neg", "pos")}
        boxes |= {f"Answer.confidence.{n}": str(n == 2).upper() for n in range(1, 5)}
        about = {"AssignmentStatus": "Submitted", "WorkTimeInSeconds": "12", "Input.item": str(item)}
        return {"WorkerId": worker, **about, **boxes, "Answer.readability": "4", "Answer.label": "", **others}

    wrong = [
        worked(first),
        worked(first, **{"Answer.label.neg": "true"}),
        worked(first, **{"Answer.readability": "9"}),
        worked(9999),
        worked(first, **{"Answer.label.pos": "", "Answer.label": "Pos"}),
    ]
    assert refusal(asking, "mturk", batch(tmp_path / "r.csv", *wrong)) == [
        "r.csv, line 3: there must be exactly one label.",
        "r.csv, line 4: readability must be a whole number from 1 (very difficult) to 5 (very easy), got 9.",
        "r.csv, line 5: there is no item 9999 in this study.",
        "r.csv, line 6: Pos is not a label of this study. Did you mean pos?",
    ]
    file = batch(tmp_path / "r.csv", worked(first), worked(first), worked(third, AssignmentStatus="Rejected"))
    left = ["r.csv, line 4: the answer of W1 was rejected in the other tool."]
    assert outcome(import_study(asking, "mturk", file)) == (1, 1, left)
    assert answers(asking) == [(first, Answer("pos", 2, 4, 12_000))]


def test_invalid_mturk_cells_are_reported(asking: Store, tmp_path: Path) -> None:
    [one, *_] = items(asking)
    rows = [
        assignment(one, **{"Answer.taskAnswers": "[{"}),
        assignment(one, **{"Answer.taskAnswers": '[{"label": {"pos": true, "neg": true}}]'}),
        assignment(one, WorkTimeInSeconds="long"),
        assignment(one, WorkerId=""),
    ]
    assert refusal(asking, "mturk", batch(tmp_path / "r.csv", *rows)) == [
        "r.csv, line 2: Answer.taskAnswers is not in the format of Mechanical Turk: '[{'.",
        "r.csv, line 3: there must be exactly one label, one confidence, one readability.",
        "r.csv, line 4: WorkTimeInSeconds must be a number of at least 0, got 'long'.",
        "r.csv, line 5: there must be exactly one annotator.",
    ]


def pairs(label: str = "Good", **others: str) -> list[Any]:
    """What one annotator chose, as a state of Potato 2 has it."""
    chosen = {"label": label, **SCALES, **others}
    return [[{"schema": scheme, "name": name}, name] for scheme, name in chosen.items() if name]


def state(user: str, done: dict[int, list[Any]]) -> dict[str, Any]:
    """A user_state.json, with less of what we do not read."""
    behavior = {"session_start": 1.7e9, "total_time_ms": 4500}
    return {
        "user_id": user,
        "current_phase_and_page": ["annotation", None],
        "instance_id_to_label_to_value": {str(item): labels for item, labels in done.items()},
        "instance_id_to_span_to_value": {},
        "instance_id_to_behavioral_data": {str(item): {"instance_id": str(item), **behavior} for item in done},
    }


def test_potato_output_folders_are_read(asking: Store, tmp_path: Path) -> None:
    one, two, three, four, other, *_ = items(asking)
    out = tmp_path / "potato-annotated"
    write(out / "ann" / "user_state.json", state("ann", {one: pairs(), two: pairs("Bad & dull"), other: pairs()}))
    write(out / "bob" / "user_state.json", state("bob", {one: pairs(), three: pairs(confidence=""), four: []}))
    write(out / "exports" / "csv" / "annotations.csv", "instance_id,user_id\n")
    left = [
        f"ann/user_state.json, row 1, {other}: ann has seen the document of item {other} in another condition.",
        f"bob/user_state.json, row 1, {three}: bob has not answered confidence.",
    ]
    assert outcome(import_study(asking, "potato", out)) == (3, 0, left)
    good = (one, Answer("pos", 3, 4, 4500))
    assert answers(asking) == [good, good, (two, Answer("neg", 3, 4, 4500))]
    assert outcome(import_study(asking, "potato", out / "ann" / "user_state.json")) == (0, 2, left[:1])


def test_potato_exports_are_read(asking: Store, tmp_path: Path) -> None:
    one, two, three, *_ = items(asking)
    scales = {name: {step: step} for name, step in SCALES.items()}
    line = {"instance_id": str(one), "user_id": "ann", "labels": {"label": {"Good": "Good"}, **scales}}
    file = lines(tmp_path / "annotations.jsonl", {**line, "spans": {}, "links": {}})
    assert outcome(import_study(asking, "potato", file)) == (1, 0, [])
    columns = "instance_id,user_id,label.Bad & dull,label.Good,confidence.pretty confident,readability.easy,label"
    rows = [f"{two},ann,Bad & dull,,pretty confident,easy,", f"{three},ann,x,x,pretty confident,easy,Good"]
    file = write(tmp_path / "annotations.csv", "\n".join([columns, *rows, ""]))
    assert outcome(import_study(asking, "potato", file)) == (2, 0, [])
    file = write(tmp_path / "annotations.tsv", "\n".join([columns, *rows, ""]).replace(",", "\t"))
    assert outcome(import_study(asking, "potato", file)) == (0, 2, [])
    assert [given.label for _, given in answers(asking)] == ["pos", "neg", "pos"]


def test_potato_1_names_annotators_by_folder(asking: Store, tmp_path: Path) -> None:
    [one, *_] = items(asking)
    chosen = {"label": {"Good": "true"}, "confidence": {"1": "true"}, "readability": {"easy": "true"}}
    behavior = {"time_string": "Time spent: 0d 0h 1m 5s "}
    line = {"id": str(one), "displayed_text": "good", "label_annotations": chosen, "behavioral_data": behavior}
    lines(tmp_path / "out" / "ann@x.org" / "annotated_instances.jsonl", {**line, "span_annotations": {}})
    assert outcome(import_study(asking, "potato", tmp_path / "out")) == (1, 0, [])
    assert answers(asking) == [(one, Answer("pos", 1, 4, 65_000))]
    assert get_overview(asking).annotators[0].outside == "ann@x.org"


def test_invalid_potato_files_are_refused(asking: Store, tmp_path: Path) -> None:
    [one, *_] = items(asking)
    with pytest.raises(StudyError, match=r"no folders with user_state\.json or annotated_instances\.jsonl"):
        import_study(asking, "potato", tmp_path)
    [line] = refusal(asking, "potato", write(tmp_path / "a.json", [{"item": 1}]))
    assert line.startswith("a.json, row 1: this is not an answer in the format of Potato. Import user_state.json")
    broken = {"instance_id_to_label_to_value": {str(one): [3]}}
    [line] = refusal(asking, "potato", write(tmp_path / "a.json", broken))
    assert line.startswith("a.json, row 1: unexpected contents (TypeError")
    wrong = state("ann", {one: pairs("Great", confidence="sure"), 9999: pairs()})
    assert refusal(asking, "potato", write(tmp_path / "ann" / "user_state.json", wrong)) == [
        f"ann/user_state.json, row 1, {one}: Great is not a label of this study. There are: neg, pos.",
        f"ann/user_state.json, row 1, {one}: confidence must be a whole number from 1 (not confident) to 4 (very "
        "confident), got 'sure'.",
        "ann/user_state.json, row 1, 9999: there is no item 9999 in this study.",
    ]


def test_label_studio_tasks_are_read(asking: Store, tmp_path: Path) -> None:
    one, two, three, four, *_ = items(asking)
    person = {"id": 8, "email": "ann@x.org", "first_name": "", "last_name": ""}
    tasks = [
        task(one, annotation(1), annotation(2, "neg", by=person), annotation(3, by=9)),
        task(two, annotation(4), annotation(5, "neg")),
        task(three, annotation(6, was_cancelled=True, result=[])),
        task(four),
    ]
    file = write(tmp_path / "project-83.json", tasks)
    left = [
        f"project-83.json, row 1, annotation 3: item {one} has all the answers that it needs.",
        f"project-83.json, row 2, annotation 5: Label Studio 7 has already answered item {two} differently. The first "
        "answer stands.",
        "project-83.json, row 3, annotation 6: the answer of Label Studio 7 was skipped in the other tool.",
    ]
    assert outcome(import_study(asking, "label_studio", file)) == (3, 0, left)
    good = Answer("pos", 3, 4, 4288)
    assert answers(asking) == [(one, good), (one, Answer("neg", 3, 4, 4288)), (two, good)]
    names = [one.outside for one in get_overview(asking).annotators]
    assert names == ["Label Studio 7", "ann@x.org", "Label Studio 9"]
    assert read_answers(asking)[0]["at"] == parse_timestamp("2026-03-09T22:01:08.728353Z")


@pytest.mark.parametrize("ending", ["json", "csv", "tsv"])
def test_flat_label_studio_exports_are_read(asking: Store, tmp_path: Path, ending: str) -> None:
    one, two, *_ = items(asking)
    rated: Any = [{"rating": 4}]
    flat = {"text": text_of(asking, one), "label": "pos", "confidence": "3", "annotator": 7, "lead_time": 900_000.5}
    about = {"annotation_id": 1, "created_at": "2026-03-09T22:16:08Z", "updated_at": "2026-03-09T22:16:08Z"}
    nobody = dict.fromkeys(["annotator", *about])
    rows: list[dict[str, Any]] = [
        {"id": 5, "item": one, "readability": rated, **flat, **about},
        {"id": 6, "item": two, "text": text_of(asking, two), **nobody},
    ]
    path = tmp_path / f"export.{ending}"
    if ending == "json":
        write(path, rows)
    else:
        rows[0]["readability"] = json.dumps(rated)
        table(path, sorted(rows[0]), rows)
    assert outcome(import_study(asking, "label_studio", path)) == (1, 0, [])
    assert answers(asking) == [(one, Answer("pos", 3, 4, 7 * 24 * 3_600_000))]  # a page that lay open for days


def test_invalid_label_studio_files_are_refused(asking: Store, tmp_path: Path) -> None:
    [one, *_] = items(asking)
    [line] = refusal(asking, "label_studio", write(tmp_path / "a.json", [{"item": one}]))
    assert line.startswith("a.json, row 1: this is not an answer in the format of Label Studio. Import its export")
    two_labels = annotation(1)
    two_labels["result"].append({"from_name": "label", "value": {"choices": ["neg"]}})
    found = refusal(asking, "label_studio", write(tmp_path / "a.json", [task(one, two_labels)]))
    assert found == ["a.json, row 1, annotation 1: there must be exactly one label."]


def test_labels_with_swapped_texts_are_told_apart(tmp_path: Path) -> None:
    """Potato saves what people read, Label Studio what it stands for."""
    with closing(make_asking(tmp_path / "swapped", {"neg": "pos", "pos": "neg"})) as store:
        one, two, *_ = items(store)
        import_study(store, "potato", write(tmp_path / "ann" / "user_state.json", state("ann", {one: pairs("pos")})))
        import_study(store, "label_studio", write(tmp_path / "a.json", [task(two, annotation(1, "pos"))]))
        assert [given.label for _, given in answers(store)] == ["neg", "pos"]


def test_labels_named_true_and_false_are_read(tmp_path: Path) -> None:
    with closing(make_asking(tmp_path / "facts", {"neg": "false", "pos": "true"})) as store:
        one, two, three, four, *_ = items(store)
        given = state("ann", {one: pairs("false"), two: pairs("true")})
        import_study(store, "potato", write(tmp_path / "ann" / "user_state.json", given))
        for column, item in (("label.false", three), ("label", four)):
            row = f"instance_id,user_id,{column},confidence,readability\n{item},ann,false,1,5\n"
            import_study(store, "potato", write(tmp_path / "annotations.csv", row))
        assert sorted(given.label for _, given in answers(store)) == ["neg", "neg", "neg", "pos"]


def test_files_that_cannot_be_read_are_refused(asking: Store, tmp_path: Path) -> None:
    first, second = refusal(asking, "jsonl", write(tmp_path / "a.jsonl", "{\n3\n"))
    assert first.startswith("a.jsonl, line 1: broken JSON")
    assert second.startswith("a.jsonl, line 2: a JSON object is needed")
    with pytest.raises(StudyError, match=r"doccano is not an import format"):
        import_study(asking, "doccano", tmp_path / "a.csv")


def test_unicode_line_separators_do_not_end_rows(asking: Store, tmp_path: Path) -> None:
    [first, *_] = numbers(asking)
    row = {"annotator": "Zo\u2028e\x85", "item": first, "label": "pos", "confidence": 2.0, "readability": 3}
    file = write(tmp_path / "a.jsonl", json.dumps(row, ensure_ascii=False) + "\n\n")
    assert import_study(asking, "jsonl", file).n_new == 1
    assert import_study(asking, "mturk", batch(tmp_path / "b.csv", assignment(first, Title="a\nb\u2028c"))).n_new == 1


def test_timestamps_of_all_tools_are_parsed() -> None:
    for written in ("2026-03-09T22:16:08.728353Z", "2026-03-09T22:16:08.728353"):
        assert parse_timestamp(written) == 1_773_094_568_728
    assert parse_timestamp("Mon Mar 09 22:16:08 PDT 2026") == 1_773_119_768_000
    assert parse_timestamp(1.7e9) == 1_700_000_000_000
    nan, inf = float("nan"), float("inf")
    unread: list[Any] = [None, "", "soon", "2026-99-99", -1, nan, inf, [], 0, 1e300, "9" * 5000, "Mon"]
    assert [parse_timestamp(written) for written in unread] == [None] * len(unread)


@given(st.text() | st.floats() | st.integers())
def test_any_timestamp_is_parsed_or_ignored(written: Any) -> None:
    assert 0 <= (parse_timestamp(written) or 0) <= MAX_TIMESTAMP
