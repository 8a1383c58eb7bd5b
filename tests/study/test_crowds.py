"""Files as Mechanical Turk and Prolific write them."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from elsewhere import SHOWN, answers, asked, items, told, write
from fresh.errors import StudyError
from fresh.study import annotators as people
from fresh.study.answers import Answer
from fresh.study.export import FORMATS, escape_mturk, export_study, list_tickets
from fresh.study.importing import import_study
from fresh.study.overview import get_overview
from fresh.study.store import Store

BATCH = (
    "HITId,HITTypeId,Title,Description,Keywords,Reward,CreationTime,MaxAssignments,RequesterAnnotation,"
    "AssignmentDurationInSeconds,AutoApprovalDelayInSeconds,Expiration,NumberOfSimilarHITs,LifetimeInSeconds,"
    "AssignmentId,WorkerId,AssignmentStatus,AcceptTime,SubmitTime,AutoApprovalTime,ApprovalTime,RejectionTime,"
    "RequesterFeedback,WorkTimeInSeconds,LifetimeApprovalRate,Last30DaysApprovalRate,Last7DaysApprovalRate"
)
SUBMISSIONS = (
    "Submission id,Participant id,Status,Custom study tncs accepted at,Started at,Completed at,Reviewed at,Archived at,"
    "Time taken,Completion code,Total approvals,Fluent languages,Age,Sex"
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = asked(tmp_path / "study")
    yield made
    made.close()


def results(path: Path, *rows: dict[str, str]) -> Path:
    names = [*BATCH.split(","), "Input.item", "Input.text", "Answer.taskAnswers", "Approve", "Reject"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="", quoting=csv.QUOTE_ALL)
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


def test_pages_of_crowd_elements_are_read(store: Store, tmp_path: Path) -> None:
    one, two, three, *_ = items(store)
    rows = [assignment(one), assignment(two, "neg"), assignment(three, Reject="too fast")]
    file = results(tmp_path / "Batch_1_batch_results.csv", *rows)
    left = ["Batch_1_batch_results.csv, line 4: the answer of A2 was rejected there."]
    assert told(import_study(store, "mturk", file)) == (2, 0, left)
    assert answers(store) == [(one, Answer("pos", 3, 4, 61_000)), (two, Answer("neg", 3, 4, 61_000))]
    assert told(import_study(store, "mturk", file)) == (0, 2, left)


def test_what_is_left_out_is_named_as_in_the_file(store: Store, tmp_path: Path) -> None:
    """Whoever looks for it finds only tickets there."""
    one, *_, two = items(store)[:5]  # one document
    names = list_tickets(store)
    rows = [assignment(one, WorkerId=who) | {"Input.item": names[one]} for who in "abc"]
    rows.append(assignment(two, WorkerId="a") | {"Input.item": names[two]})
    rows.append(assignment(one, "neg", WorkerId="a") | {"Input.item": names[one]})
    assert told(import_study(store, "mturk", results(tmp_path / "r.csv", *rows)))[2] == [
        f"r.csv, line 4: item {names[one]} has all the answers that it needs.",
        f"r.csv, line 5: a has seen the document of item {names[two]} otherwise cut.",
        f"r.csv, line 6: a has answered item {names[one]} before, and otherwise. The first answer stands.",
    ]


def test_broken_cells_of_mechanical_turk_are_named(store: Store, tmp_path: Path) -> None:
    [one, *_] = items(store)
    rows = [
        assignment(one, **{"Answer.taskAnswers": "[{"}),
        assignment(one, **{"Answer.taskAnswers": '[{"label": {"pos": true, "neg": true}}]'}),
        assignment(one, WorkTimeInSeconds="long"),
        assignment(one, WorkerId=""),
    ]
    with pytest.raises(StudyError) as caught:
        import_study(store, "mturk", results(tmp_path / "r.csv", *rows))
    assert str(caught.value).splitlines() == [
        "r.csv, line 2: Answer.taskAnswers is not as Mechanical Turk writes it: '[{'.",
        "r.csv, line 3: there is no label, no confidence, no readability, or more than one.",
        "r.csv, line 4: WorkTimeInSeconds must be a number from 0, got 'long'.",
        "r.csv, line 5: there is no person, or more than one.",
    ]


def test_mechanical_turk_gets_no_letter_of_four_bytes(store: Store, tmp_path: Path) -> None:
    assert escape_mturk("a 😀 <b> ${text} é") == "a &#128512; &lt;b&gt; &#36;{text} é"
    batch, form = export_study(store, "mturk", tmp_path / "batch.csv")
    assert batch.read_text(encoding="utf-8").startswith("item,text,query\n")
    page = form.read_text(encoding="utf-8")
    assert "${text}" in page
    assert "${query}" in page
    assert '<label><input type="radio" name="label" value="neg" required> Bad &amp; dull</label>' in page


def submissions(path: Path, *rows: tuple[str, str]) -> Path:
    lines = [
        f'67{n},{who},{status},Not Applicable,,,,,1150,C12,389,"German, English",24,Male'
        for n, (who, status) in enumerate(rows)
    ]
    return write(path, "\n".join([SUBMISSIONS, *lines]) + "\n")


def test_prolific_says_who_has_left(store: Store, tmp_path: Path) -> None:
    gone = [("b", "RETURNED"), ("c", "TIMED-OUT"), ("d", "REJECTED"), ("e", "SCREENED OUT")]
    here = [("a", "APPROVED"), ("f", "ACTIVE"), ("g", "AWAITING REVIEW")]
    file = submissions(tmp_path / "prolific_export.csv", *gone, *here, ("b", "APPROVED"))
    assert told(import_study(store, "prolific", file)) == (7, 0, [])
    found = {one.outside: one.state for one in get_overview(store).annotators}
    left, active = dict.fromkeys("ce", "left"), dict.fromkeys("abfg", "active")
    assert found == {**left, **active, "d": "excluded"}  # b came back and was approved
    assert told(import_study(store, "prolific", file)) == (0, 7, [])
    assert FORMATS["prolific"](store).splitlines()[:2] == [
        "Participant id,answered,checks failed,state",
        "b,0,0,not begun",
    ]
    older = write(tmp_path / "older.csv", "session_id,participant_id,status\n1,z,Timed-Out\n")
    assert told(import_study(store, "prolific", older)) == (1, 0, [])
    assert get_overview(store).annotators[-1].state == "left"


def test_a_file_of_prolific_is_refused_whole(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", "Participant id,Status\na,REJECTED\nb,REJECT\n,ACTIVE\n")
    with pytest.raises(StudyError) as caught:
        import_study(store, "prolific", file)
    assert str(caught.value).splitlines() == [
        "p.csv, line 3: REJECT is not a status that Prolific gives. Did you mean REJECTED?",
        "p.csv, line 4: Prolific's export has the columns 'Participant id' and 'Status'.",
    ]
    assert get_overview(store).annotators == ()


def test_an_import_of_prolific_is_all_or_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the disk were full at the second participant; once it is not, the places of who has gone are free again."""
    [one, two, *_] = items(store)
    work = [assignment(item, WorkerId=who) for who in "ab" for item in (one, two)]
    import_study(store, "mturk", results(tmp_path / "r.csv", *work))
    file = submissions(tmp_path / "p.csv", ("c", "ACTIVE"), ("a", "REJECTED"), ("b", "RETURNED"))

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(people, "release", full)
        with pytest.raises(OSError, match="no space left"):
            import_study(store, "prolific", file)
    assert [(person.outside, person.state) for person in get_overview(store).annotators] == [
        ("a", "active"),
        ("b", "active"),
    ]
    assert told(import_study(store, "prolific", file)) == (1, 2, [])
    states = [(person.outside, person.state, person.started) for person in get_overview(store).annotators]
    assert states == [("a", "excluded", False), ("b", "left", False), ("c", "active", False)]
    assert get_overview(store).n_answered == 2
    again = results(tmp_path / "r.csv", *(assignment(item, WorkerId="d") for item in (one, two)))
    assert told(import_study(store, "mturk", again)) == (2, 0, [])
