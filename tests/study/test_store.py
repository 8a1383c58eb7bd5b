import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, select, text

from fresh.errors import StudyError
from fresh.study.annotators import add_annotators, exclude, leave, release_expired, set_paused, sign_in
from fresh.study.answers import Answer
from fresh.study.items import make_plan
from fresh.study.schema import AnnotatorRow, AnswerRow, Base, PracticeAnswerRow
from fresh.study.service import Progress, SavedAnswer, get_progress, next_item, save_answer
from fresh.study.store import Store, _connect, _migrate, create_study, now_ms, open_study
from shared_study_store import (
    YES,
    check,
    people,
    store,  # noqa: F401
    work,
)
from studies import corpus, enroll, load, plan, study, two_ways

NO = Answer("neg", 1, 2, 900)


def rows(store: Store, table: type[Base]) -> int:
    with store.read_session() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_somebody_practises_answers_is_checked_and_is_done(store: Store) -> None:
    [who] = people(store, 1)
    kinds: list[str] = []
    while (task := next_item(store, who)) is not None:
        assert next_item(store, who) == task  # the same until it is answered
        kinds.append(task.kind)
        assert save_answer(store, who, task.item, YES).label in (("neg", "pos") if task.kind == "practice" else (None,))
    assert kinds == ["practice", "real", "real", "real", "check", "real", "real", "real"]
    assert get_progress(store, who) == Progress(1, 1, 7, 7)  # with the check
    assert (rows(store, AnswerRow), rows(store, PracticeAnswerRow)) == (6, 2)
    check(store)


def test_an_answer_is_saved_once_and_the_first_stands(store: Store) -> None:
    [who] = people(store, 1)
    for _ in range(2):  # practice, then a real one
        task = next_item(store, who)
        assert task is not None
        first = save_answer(store, who, task.item, YES)
        assert save_answer(store, who, task.item, NO) == SavedAnswer(YES, True, first.label)
    assert rows(store, AnswerRow) == rows(store, PracticeAnswerRow) == 1


def test_what_cannot_be_saved_is_refused(store: Store) -> None:
    one, two = people(store, 2)
    work(store, one, 1)
    task = next_item(store, one)
    assert task is not None
    with pytest.raises(StudyError, match=rf"^Item {task.item} was not given to you\. Go on with the one that is shown"):
        save_answer(store, two, task.item, YES)
    with pytest.raises(StudyError, match=r"^poss is not a label of this study\. Did you mean pos\?$"):
        save_answer(store, one, task.item, Answer("poss", 1, 1))
    with pytest.raises(StudyError, match=r"^There is no item 9999 in this study\.$"):
        save_answer(store, one, 9999, YES)
    with pytest.raises(StudyError, match=r"^There is no annotator 77 in this study\.$"):
        next_item(store, 77)
    with pytest.raises(StudyError, match=r"^Agree to take part first\.$"):
        next_item(store, enroll(store, "new").id)
    with pytest.raises(StudyError, match=r"^Somebody from a crowd platform needs the name that they have there"):
        enroll(store, " ")


def test_a_paused_study_takes_answers_and_gives_nothing_out(store: Store) -> None:
    [who] = people(store, 1)
    task = next_item(store, who)
    assert task is not None
    set_paused(store)
    with pytest.raises(StudyError, match=r"^The study is paused\. Come back later; your answers are saved\.$"):
        next_item(store, who)
    save_answer(store, who, task.item, YES)
    set_paused(store, False)
    assert next_item(store, who) != task


def test_who_leaves_keeps_answers_and_gives_back_the_rest(store: Store) -> None:
    who, *others = people(store, 6)
    work(store, who, 2)
    held = next_item(store, who)
    assert held is not None
    leave(store, who)
    with pytest.raises(
        StudyError, match=r"^You have left this study\. To take part again, ask whoever runs it to readmit you\.$"
    ):
        next_item(store, who)
    with pytest.raises(StudyError, match=r"^You have left this study"):
        save_answer(store, who, held.item, YES)
    assert sum(work(store, other) for other in others) == 24 - 2
    check(store)


def test_who_is_excluded_counts_no_more(store: Store) -> None:
    who, *others = people(store, 6)
    work(store, who, 3)
    exclude(store, who)
    leave(store, who)  # changes nothing any more
    with pytest.raises(StudyError, match=r"^Your part in this study has ended\.$"):
        next_item(store, who)
    assert sum(work(store, other) for other in others) == 24
    check(store)


def test_what_lies_too_long_goes_to_others_but_late_answers_are_taken(store: Store) -> None:
    [who] = people(store, 1)
    work(store, who, 1)
    task = next_item(store, who)
    assert task is not None
    assert release_expired(store) == 0
    assert release_expired(store, now_ms() + 25 * 3_600_000) == 1
    assert not save_answer(store, who, task.item, YES).repeated
    check(store)


def test_a_place_that_is_gone_is_refused(store: Store) -> None:
    who, *others = people(store, 5)
    work(store, who, 1)
    task = next_item(store, who)
    assert task is not None
    release_expired(store, now_ms() + 25 * 3_600_000)
    assert sum(work(store, other) for other in others) == 23
    with pytest.raises(StudyError, match=rf"^Item {task.item} was given to somebody else, since no answer came"):
        save_answer(store, who, task.item, YES)
    check(store)


def test_codes_open_the_door_and_cannot_be_read_back(store: Store) -> None:
    first, second = add_annotators(store, 2)
    found = sign_in(store, f" {first.upper()} ")
    assert found is not None
    assert (found.state, found.consented) == ("active", False)
    assert sign_in(store, first.replace("-", "", 2).replace(first.partition("-")[0], f"{found.id}-", 1)) == found
    assert sign_in(store, second[:-1] + ("a" if second[-1] != "a" else "b")) is None
    for wrong in ("", "1", "999-aaaa-bbbb-cccc", "²-aaaa", f"{found.id}-", "x" * 1000):
        assert sign_in(store, wrong) is None
    with store.read_session() as session:
        kept = [value for row in session.scalars(select(AnnotatorRow)) for value in (row.salt, row.code)]
    secret = first.partition("-")[2]
    assert not any(secret in value or secret.replace("-", "") in value for value in kept)
    assert len(set(kept)) == 4
    with pytest.raises(StudyError, match=r"^The number of annotators must be at least 1, got 0\.$"):
        add_annotators(store, 0)


def test_a_study_is_opened_again_as_it_was(store: Store, database: str) -> None:
    again = open_study(database)
    assert (again.about, again.design, again.labels) == (store.about, store.design, {"neg": "neg", "pos": "pos"})
    assert again.conditions == ("human", "full")
    again.close()
    with pytest.raises(StudyError, match=r"already\. Choose another place\.$"):
        create_study(database, plan(two_ways()))


def test_two_servers_do_not_go_beyond_the_plan(store: Store, database: str) -> None:
    other = open_study(database)
    crowd = people(store, 12)
    barrier = threading.Barrier(12)

    def one(number: int) -> int:
        barrier.wait()
        return work((store, other)[number % 2], crowd[number])

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(one, range(12))) == 24
    check(store)
    other.close()


def test_one_person_at_two_windows_gets_one_item_and_one_answer(store: Store) -> None:
    [who] = people(store, 1)
    work(store, who, 1)
    with ThreadPoolExecutor(8) as pool:
        tasks = list(pool.map(lambda _: next_item(store, who), range(16)))
        [item] = {task.item for task in tasks if task is not None}
        saved = list(pool.map(lambda n: save_answer(store, who, item, (YES, NO)[n % 2]), range(16)))
    assert sum(not one.repeated for one in saved) == 1
    assert len({one.answer for one in saved}) == 1


def test_somebody_from_outside_is_taken_in_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len({one.id for one in pool.map(lambda _: enroll(store, "p1"), range(8))}) == 1


def test_migrations_make_the_tables_that_the_code_knows(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_an_older_study_is_migrated_and_a_newer_one_refused(database: str) -> None:
    Path(database).mkdir() if "://" not in database else None
    engine = _connect(database)
    _migrate(engine, "a1")
    with engine.connect().execution_options(writes=True) as connection:
        connection.execute(text("INSERT INTO annotators (salt, code, state) VALUES ('00', '11', 'active')"))
        connection.commit()
    store = create_study(database, plan(two_ways()))
    with store.read_session() as session:
        assert [(row.code, row.outside) for row in session.scalars(select(AnnotatorRow))] == [("11", None)]
    with store.engine.connect().execution_options(writes=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'z9'"))
        connection.commit()
    with pytest.raises(StudyError, match=r"was made by a newer version of fresh \(its tables are of version z9\)"):
        open_study(database)
    store.close()
    engine.dispose()


def test_places_without_a_study_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^There is no study in .*nowhere\. Make one with: fresh study new STUDY"):
        open_study(tmp_path / "nowhere")
    (tmp_path / "study.db").touch()
    with pytest.raises(StudyError, match=r"holds no study\. Make one with: fresh study new STUDY.toml --database URL$"):
        open_study(tmp_path)
    with pytest.raises(StudyError, match=r"^mysql is not a database for a study\. There are: sqlite, postgresql\.$"):
        open_study("mysql://root@localhost/x")
    with pytest.raises(
        StudyError, match=r"^The database postgresql\+psycopg://me:\*\*\*@127\.0\.0\.1:1/x cannot be used: "
    ):
        open_study("postgresql://me:secret@127.0.0.1:1/x")


def test_sqlite_writes_ahead_and_to_the_disk(tmp_path: Path) -> None:
    store = create_study(tmp_path, plan(two_ways()))
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    store.close()
    assert sqlite3.connect(tmp_path / "study.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_labels_keep_their_order_in_the_database(database: str) -> None:
    labels = {"pos": "Good", "neg": "Bad"}
    create_study(database, make_plan(study(two_ways(), labels), corpus(), load)).close()
    with closing(open_study(database)) as store:
        assert list(store.labels.items()) == list(labels.items())
