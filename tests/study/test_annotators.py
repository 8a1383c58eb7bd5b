"""Annotators come and go, in the database and by command."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from fresh.cli.main import main
from fresh.errors import StudyError
from fresh.study import annotators as people
from fresh.study.annotators import (
    Annotator,
    add_annotators,
    exclude,
    find_annotator,
    leave,
    readmit,
    record_consent,
    set_paused,
)
from fresh.study.answers import Answer
from fresh.study.overview import get_overview, read_responses
from fresh.study.schema import AssignmentRow
from fresh.study.service import may_get_more, next_item, save_answer
from fresh.study.store import Store, create_study, now_ms, open_study
from studies import as_earlier, enroll, plan, two_ways


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    made = as_earlier(create_study(database, plan(two_ways(), sample=4, practice=0, checks=0, per_item=1)))
    yield made
    made.close()


def take_part(store: Store, name: str, n_answers: int = 9) -> int:
    """Take somebody in, who answers so many items."""
    who = enroll(store, name).id
    record_consent(store, who)
    for _ in range(n_answers):
        task = next_item(store, who)
        if task is None:
            break
        save_answer(store, who, task.item, Answer("pos", 3, 4, 1000))
    return who


def test_who_is_readmitted_counts_again_where_nobody_came_instead(store: Store) -> None:
    who = take_part(store, "p1", 3)  # items 1, 4, 5: the first documents, in turn in either condition
    assert next_item(store, who) is not None
    assert exclude(store, who) == 4
    assert read_responses(store) == []
    second, third = take_part(store, "p2", 1), take_part(store, "p3", 1)
    assert [(one.item, one.annotator) for one in read_responses(store)] == [(1, third), (2, second)]
    assert readmit(store, who) == 1
    assert [(one.item, one.annotator) for one in read_responses(store)][2:] == [(4, who), (5, who)]
    assert readmit(store, who) == 1
    assert [task.item for task in (next_item(store, who),) if task] == [8]  # what was before them
    take_part(store, "p1")
    take_part(store, "p2")
    take_part(store, "p3")
    assert [one.item for one in read_responses(store)] == list(range(1, 9))


def test_who_left_is_let_in_again(store: Store) -> None:
    who = take_part(store, "p1", 2)
    task = next_item(store, who)
    assert leave(store, who) == 1
    assert leave(store, who) == 0
    assert readmit(store, who) == 0
    assert next_item(store, who) == task  # nobody else was given it
    assert len(read_responses(store)) == 2


def test_what_lies_too_long_is_given_back_in_the_order_of_items(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by whoever excludes somebody: else two servers on PostgreSQL could wait for each other."""
    first, second = take_part(store, "p1", 3), take_part(store, "p2", 0)
    assert next_item(store, first) is not None  # item 8
    assert next_item(store, second) is not None  # item 2, given later
    given_back: list[int] = []

    def release(session: Session, assignment: int) -> bool:
        given_back.append(session.get_one(AssignmentRow, assignment).item)
        return True

    monkeypatch.setattr(people, "release", release)
    assert people.release_stale(store, now_ms() + 25 * 3_600_000) == 2
    assert given_back == [2, 8]


def test_people_are_found_by_number_or_name(store: Store) -> None:
    first, second = enroll(store, "2").id, enroll(store, "W2").id
    assert find_annotator(store, str(first)).outside == "2"
    assert find_annotator(store, "2") == find_annotator(store, "W2") == Annotator(second, "active", False, "W2")
    for wrong in ("W", "99", "9" * 30, "²", ""):
        with pytest.raises(StudyError) as caught:
            find_annotator(store, wrong)
        assert str(caught.value) == (
            f"There is no annotator {wrong!r} in this study. Name one by the number, or the name in brackets, that "
            "`fresh study status` shows."
        )


def test_a_pause_says_whether_it_changed_anything(store: Store) -> None:
    assert [set_paused(store), set_paused(store), set_paused(store, False), set_paused(store, False)] == [
        True,
        False,
        True,
        False,
    ]


def test_how_people_stand_is_told_as_they_see_it_themselves(store: Store) -> None:
    """Two people can complete it: who has read all documents has finished, and who waits for others has not."""
    enroll(store, "p0")
    first, second = take_part(store, "p1"), take_part(store, "p2", 3)
    assert [one.status for one in get_overview(store).annotators] == ["not begun", "finished", "active"]
    assert next_item(store, second) is not None
    third = take_part(store, "p3")
    assert may_get_more(store, third)
    assert [one.status for one in get_overview(store).annotators][1:] == ["finished", "active", "active"]
    take_part(store, "p2")
    assert not may_get_more(store, third)
    assert [one.status for one in get_overview(store).annotators][1:] == ["finished", "finished", "finished"]
    exclude(store, second)
    leave(store, first)
    assert [one.status for one in get_overview(store).annotators] == ["not begun", "left", "excluded", "active"]


def test_who_has_a_check_to_answer_has_not_finished(tmp_path: Path) -> None:
    with closing(create_study(tmp_path, plan(two_ways(), sample=1, practice=0, checks=1))) as store:
        who = take_part(store, "p1", 1)
        task = next_item(store, who)
        assert task is not None
        assert (task.kind, get_overview(store).annotators[0].status) == ("check", "active")
        take_part(store, "p1")
        assert get_overview(store).annotators[0].status == "finished"


def test_it_is_told_when_those_who_have_codes_cannot_complete_a_study(folder: str) -> None:
    """Eight answers: whoever takes part can give four of them, one for each document."""
    with closing(open_study(folder)) as store:
        assert get_overview(store).n_more == 1
        add_annotators(store, 1)
        assert get_overview(store).n_more == 0
        leave(store, 1)
        assert get_overview(store).n_more == 1
        exclude(store, 1)
        assert get_overview(store).n_more == 1
        readmit(store, 1)
        assert get_overview(store).n_more == 0  # what they gave back is theirs again
        take_part(store, "W4")
        assert get_overview(store).n_more == 0
        exclude(store, 1)
        assert get_overview(store).n_more == 0  # who has a code can give all that is missing


def test_what_is_missing_is_told_by_status(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = "Those who have codes cannot complete the study: at least 1 more annotator is needed."
    assert says(capsys, "status", folder).splitlines()[:2] == [
        "3 of 8 answers, by 1 of 1 annotator.",
        f"{told} Make codes: fresh study codes {folder} 1",
    ]
    says(capsys, "codes", folder, "1")
    assert says(capsys, "status", folder) == (
        "3 of 8 answers, by 1 of 2 annotators.\n  annotator 1 (W1): active, 3 answers, 1.0 s an answer\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A study of eight answers, of which one annotator has given three and has one item before them."""
    place = tmp_path / "a-study"
    with closing(create_study(place, plan(two_ways(), sample=4, practice=0, checks=0, per_item=1))) as store:
        next_item(store, take_part(as_earlier(store), "W1", 3))
    return str(place)


def says(capsys: pytest.CaptureFixture[str], *words: str, fails: bool = False) -> str:
    """Run a command and take what it says."""
    assert main(["study", *words]) == int(fails)
    out, err = capsys.readouterr()
    assert (out == "") == fails
    return err if fails else out


def test_a_study_is_paused_and_resumed(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says(capsys, "resume", folder) == "It was not paused.\n"
    assert says(capsys, "pause", folder) == "Paused: nothing is given out, answers are still saved.\n"
    assert says(capsys, "pause", folder) == "It was paused already.\n"
    assert says(capsys, "status", folder).startswith("The study is paused: fresh study resume.\n3 of 8 answers")
    assert says(capsys, "resume", folder) == "Items are given out again.\n"
    assert "The study is paused" not in says(capsys, "status", folder)


def test_annotators_leave_are_excluded_and_come_back(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says(capsys, "readmit", folder, "1", fails=True) == "fresh study: Annotator 1 takes part already.\n"
    left = "Annotator 1 has left; what they answered counts. Items that others get: 1.\n"
    assert says(capsys, "leave", folder, "W1") == left
    gone = "Annotator 1 is excluded; nothing of theirs counts. Items that others get: 3.\n"
    assert says(capsys, "exclude", folder, "1") == gone
    assert says(capsys, "leave", folder, "1", fails=True) == (
        "fresh study: Annotator 1 is excluded. To let their answers count, use readmit, then leave.\n"
    )
    with closing(open_study(folder)) as store:
        take_part(store, "W2", 1)
        take_part(store, "W3", 1)  # the first item of annotator 1
    assert says(capsys, "readmit", folder, "W1") == (
        "Annotator 1 takes part again, and what they answered counts.\n"
        "Answers that do not count, since others were given the items: 1.\n"
    )
    with closing(open_study(folder)) as store:
        assert get_overview(store).annotators[0].state == "active"


def test_an_unknown_annotator_is_refused(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("leave", "exclude", "readmit"):
        assert says(capsys, action, folder, "7", fails=True) == (
            "fresh study: There is no annotator '7' in this study. Name one by the number, or the name in brackets, "
            "that `fresh study status` shows.\n"
        )


@pytest.mark.parametrize(
    ("action", "taught"),
    [
        ("pause", "until `fresh study resume`"),
        ("resume", "give items out again"),
        ("leave", "fresh study leave my-study 3 "),
        ("exclude", "`fresh study readmit`"),
        ("readmit", "After an exclusion"),
    ],
)
def test_help_teaches(action: str, taught: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["study", action, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: fresh study {action} [-h] STUDY")
    assert taught in shown
