import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]

from elsewhere import numbers
from fresh.errors import DataError, StudyError
from fresh.study.annotators import add_annotators, exclude, record_consent, sign_in
from fresh.study.answers import Answer
from fresh.study.export import FORMATS, _answers_csv, _answers_jsonl, database_name, export_study, study_name
from fresh.study.importing import import_study
from fresh.study.overview import compute_results, get_overview, read_answers, read_responses
from fresh.study.results import draw_results
from fresh.study.service import next_item, save_answer
from fresh.study.store import Store, create_study
from studies import enroll, plan, two_ways


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = create_study(tmp_path / "study", plan(two_ways(), sample=4, practice=1, checks=1, per_item=2))
    yield made
    made.close()


def answer_all(store: Store, n_people: int = 4) -> None:
    """Everybody finds everything positive; the first fails the check."""
    for number in range(n_people):
        who = enroll(store, f"p{number}").id
        record_consent(store, who)
        while (task := next_item(store, who)) is not None:
            answer = (
                Answer("neg", 1, 5) if task.kind == "check" and number else Answer("pos", 3, 4, 1000 * (number + 1))
            )
            save_answer(store, who, task.item, answer)


def mturk(rows: list[dict[str, str]], path: Path) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def worked(item: int, worker: str = "W1", **others: str) -> dict[str, str]:
    """A row of Mechanical Turk, with its boxes that are true or false."""
    boxes = {f"Answer.label.{label}": str(label == "pos").lower() for label in ("neg", "pos")}
    boxes |= {f"Answer.confidence.{n}": str(n == 2).upper() for n in range(1, 5)}
    row = {"WorkerId": worker, "AssignmentStatus": "Submitted", "WorkTimeInSeconds": "12", "Input.item": str(item)}
    return {**row, **boxes, "Answer.readability": "4", **others}


def test_everybody_is_seen_and_who_does_not_read_is_flagged(store: Store) -> None:
    answer_all(store)
    found = get_overview(store)
    assert (found.n_answered, found.n_planned, found.paused) == (16, 16, False)
    assert [(one.n_answered, one.n_checks, one.n_failed, one.flagged) for one in found.annotators] == [
        (4, 1, 1, True),
        *[(4, 1, 0, False)] * 3,
    ]
    assert [one.seconds for one in found.annotators] == [1, 2, 3, 4]
    exclude(store, found.annotators[0].id)
    assert get_overview(store).n_answered == len(read_responses(store)) == 12


def test_results_are_those_of_the_answers(store: Store) -> None:
    answer_all(store)
    found = compute_results(store)
    assert [row.accuracy.value for row in found.rows] == [0.5, 0.5]  # half of the documents are positive
    assert [row.confidence.mean.value for row in found.rows] == [3, 3]
    assert [row.agreement.raw for row in found.rows] == [1, 1]
    assert [row.agreement.alpha for row in found.rows] == [None, None]
    assert found.remarks[0] == "16 of 16 answers by 4 annotators."


def test_answers_are_exported_and_imported_as_they_were(store: Store, tmp_path: Path) -> None:
    answer_all(store)
    rows = list(csv.DictReader(io.StringIO(_answers_csv(store))))
    lines = [json.loads(line) for line in _answers_jsonl(store).splitlines()]
    known = [{**record, "milliseconds": record["milliseconds"] or None} for record in read_answers(store)]
    assert [{key: line[key] for key in line if key not in ("study", "database")} for line in lines] == known
    assert {line["study"] for line in lines} == {study_name(store)} == {row["study"] for row in rows}
    assert {line["database"] for line in lines} == {database_name(store)} == {row["database"] for row in rows}
    assert len(rows) == len(lines) == 16 + 8
    assert {row["counted"] for row in rows if row["kind"] != "real"} == {"False"}
    for form in ("csv", "jsonl"):
        [file] = export_study(store, form, tmp_path / f"answers.{form}")
        assert import_study(store, form, file).n_existing == 16 + 8
        other = create_study(tmp_path / f"copy-{form}", plan(two_ways(), sample=4, practice=1, checks=1, per_item=2))
        assert import_study(other, form, file).n_new == 16 + 8
        assert get_overview(other).started == [replace(one, begun=False) for one in get_overview(store).started]
        assert compute_results(other).rows == compute_results(store).rows
        other.close()


def test_items_tell_no_condition(store: Store, tmp_path: Path) -> None:
    for form in ("mturk", "potato", "label_studio"):
        for file in export_study(store, form, tmp_path / f"{form}.jsonl"):
            text = file.read_text(encoding="utf-8")
            assert "doc-" not in text
            assert "human" not in text


def test_projects_of_tools_are_well_formed(store: Store, tmp_path: Path) -> None:
    data, settings = export_study(store, "potato", tmp_path / "potato.jsonl")
    assert len(data.read_text(encoding="utf-8").splitlines()) == 8
    config = yaml.safe_load(settings.read_text(encoding="utf-8"))
    assert [scheme["name"] for scheme in config["annotation_schemes"]] == ["label", "confidence", "readability"]
    assert config["data_files"] == ["potato.jsonl"]
    tasks, settings = export_study(store, "label_studio", tmp_path / "tasks.json")
    assert set(json.loads(tasks.read_text(encoding="utf-8"))[0]["data"]) == {"item", "text"}
    view = ElementTree.fromstring(settings.read_text(encoding="utf-8"))  # noqa: S314  # we wrote it
    assert [len(choices) for choices in view.iter("Choices")] == [2, 4, 5]
    batch, form = export_study(store, "mturk", tmp_path / "batch.csv")
    assert batch.read_text(encoding="utf-8").startswith("item,text\n")
    assert form.read_text(encoding="utf-8").count('type="radio"') == 11
    with pytest.raises(StudyError, match=r"^cvs is not a form that a study can be exported to\. Did you mean csv\?$"):
        export_study(store, "cvs", tmp_path / "x")


def test_results_of_mechanical_turk_are_read(store: Store, tmp_path: Path) -> None:
    first, second, third = numbers(store)[:3]  # the first two are one document
    rows = [
        worked(first),
        worked(first),
        worked(second),
        worked(first, "W2"),
        worked(first, "W3"),
        worked(third, "W4", AssignmentStatus="Rejected"),
    ]
    done = import_study(store, "mturk", mturk(rows, tmp_path / "results.csv"))
    assert (done.n_new, done.n_existing) == (2, 1)
    assert done.skipped == [
        f"results.csv, line 4: W1 has seen the document of item {second} otherwise cut.",
        f"results.csv, line 6: item {first} has all the answers that it needs.",
        "results.csv, line 7: the answer of W4 was rejected there.",
    ]
    [one, _] = read_responses(store)
    assert (one.label, one.confidence, one.readability, one.milliseconds) == ("pos", 2, 4, 12_000)


def test_rows_that_say_nothing_are_refused_all_at_once(store: Store, tmp_path: Path) -> None:
    [first, *_] = numbers(store)
    rows = [
        worked(first),
        worked(first, **{"Answer.label.neg": "true"}),
        worked(first, **{"Answer.readability": "9"}),
        worked(9999),
        worked(first, **{"Answer.label.pos": "", "Answer.label": "Pos"}),
    ]
    table = [{"Answer.label": "", **row} for row in rows]
    with pytest.raises(StudyError) as caught:
        import_study(store, "mturk", mturk(table, tmp_path / "r.csv"))
    assert str(caught.value).splitlines() == [
        "r.csv, line 3: there is no label, or more than one.",
        "r.csv, line 4: readability must be a whole number from 1 (very difficult) to 5 (very easy), got 9.",
        "r.csv, line 5: there is no item 9999 in this study.",
        "r.csv, line 6: Pos is not a label of this study. Did you mean pos?",
    ]
    assert read_responses(store) == []


def test_files_that_cannot_be_read_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.csv does not exist\. Look at the spelling"):
        import_study(store, "csv", tmp_path / "gone.csv")
    (tmp_path / "a.jsonl").write_text("{\n3\n", encoding="utf-8")
    with pytest.raises(
        StudyError, match=r"^a\.jsonl, line 1: broken JSON .*\na\.jsonl, line 2: a JSON object is needed"
    ):
        import_study(store, "jsonl", tmp_path / "a.jsonl")
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"^a\.csv, line 1: the byte 0xff is not UTF-8"):
        import_study(store, "csv", tmp_path / "a.csv")
    with pytest.raises(StudyError, match=r"^doccano is not a form that a study can import\."):
        import_study(store, "doccano", tmp_path / "a.csv")


def test_answers_come_back_to_their_own_study_once(store: Store, tmp_path: Path) -> None:
    """Also those of people who have a code and no name elsewhere, while there is room for strangers."""
    [code] = add_annotators(store, 1)
    person = sign_in(store, code)
    assert person is not None
    record_consent(store, person.id)
    for _ in range(3):
        task = next_item(store, person.id)
        assert task is not None
        save_answer(store, person.id, task.item, Answer("neg", 1, 5, 1200))
    [file] = export_study(store, "csv", tmp_path / "answers.csv")
    done = import_study(store, "csv", file)
    assert (done.n_new, done.n_existing, done.skipped) == (0, len(read_answers(store)), [])
    assert len(get_overview(store).annotators) == 1
    other = create_study(tmp_path / "copy", plan(two_ways(), sample=4, practice=1, checks=1, per_item=2))
    assert import_study(other, "csv", file).n_new == len(read_answers(store)) == len(read_answers(other))
    assert len(read_responses(store)) == len(read_responses(other))
    assert get_overview(other).annotators[0].outside == "annotator 1"
    kept = [record["at"] for record in read_answers(store)]
    assert [record["at"] for record in read_answers(other)] == kept
    other.close()


def test_letters_that_end_lines_elsewhere_do_not_end_rows(store: Store, tmp_path: Path) -> None:
    [first, *_] = numbers(store)
    row = {"annotator": "Zo\u2028e\x85", "item": first, "label": "pos", "confidence": 2.0, "readability": 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n\n", encoding="utf-8")
    assert import_study(store, "jsonl", tmp_path / "a.jsonl").n_new == 1
    assert (
        import_study(store, "mturk", mturk([worked(first, "W1", Feedback="a\nb\u2028c")], tmp_path / "b.csv")).n_new
        == 1
    )


def test_a_name_that_a_spreadsheet_would_compute_is_written_as_text(store: Store, tmp_path: Path) -> None:
    """People choose their names in some tools."""
    [first, *_] = numbers(store)
    import_study(store, "mturk", mturk([worked(first, "=1+1")], tmp_path / "r.csv"))
    assert FORMATS["prolific"](store).splitlines()[1].startswith("'=1+1,")
    [file] = export_study(store, "csv", tmp_path / "answers.csv")
    assert ",'=1+1," in file.read_text(encoding="utf-8")
    assert import_study(store, "csv", file).n_existing == 1
    assert [one.outside for one in get_overview(store).annotators] == ["=1+1"]


def test_somebody_who_was_excluded_adds_nothing(store: Store, tmp_path: Path) -> None:
    first, _, third = numbers(store)[:3]
    import_study(store, "mturk", mturk([worked(first)], tmp_path / "r.csv"))
    exclude(store, get_overview(store).annotators[0].id)
    done = import_study(store, "mturk", mturk([worked(first), worked(third)], tmp_path / "r.csv"))
    assert (done.n_new, done.n_existing) == (0, 1)
    assert done.skipped == ["r.csv, line 3: W1 is excluded."]


def test_a_figure_is_drawn(store: Store, tmp_path: Path) -> None:
    answer_all(store)
    places = [tmp_path / "a.png", tmp_path / "b.svg"]
    draw_results(compute_results(store), places)
    first = [place.read_bytes() for place in places]
    draw_results(compute_results(store), places)
    assert [place.read_bytes() for place in places] == first
    assert first[0].startswith(b"\x89PNG")
