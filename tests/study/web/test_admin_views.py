"""The admin pages."""

import csv
import io
import json
import re
import zipfile
from contextlib import closing

import pytest
from fastapi import FastAPI

from fresh.study.annotators import add_annotators, exclude, leave, make_admin_secret, sign_in
from fresh.study.export import FORMATS
from fresh.study.overview import get_overview, read_answers
from fresh.study.store import Store, open_study
from fresh.study.web.app import create_app
from studies import MakeStore
from visitors import Person, finish, finish_practice, visitor

PATHS = ("/admin/results", "/admin/export/csv", "/admin/person/1/exclude")
POSTED = ("/admin/pause", "/admin/person", "/admin/codes", "/admin/sign-out")


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store(sample=4, practice=1, checks=1, per_item=2)


@pytest.fixture
def admin(app: FastAPI, store: Store) -> Person:
    return visitor(app).get("/admin").post("/admin/sign-in", code=make_admin_secret(store))


def cells(page: str, row: str) -> list[str]:
    """Read the row of a table."""
    found = re.search(rf'<tr><th scope="row"[^>]*>{row}</th>(.*?)</tr>', page, re.DOTALL)
    assert found is not None, row
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", found[1], re.DOTALL)]


def done(admin: Person) -> str:
    """What the page says was done."""
    found = re.search(r'<p class="done" role="status">(.*?)</p>', admin.page)
    return "" if found is None else found[1]


def test_progress_times_agreement_and_flags_are_shown(admin: Person, app: FastAPI, store: Store) -> None:
    assert "0 of 16 answers, by 0 of 0 annotators" in admin.page
    assert "cannot complete the study: 4 more annotators are needed." in admin.page
    assert cells(admin.page, "human") == ["0 of 8", "–", "–", "–", "–"]
    assert "There are no results yet." in admin.page
    finish(app, store, 4)
    add_annotators(store, 1)
    page = admin.get("/admin").page
    assert "16 of 16 answers, by 4 of 5 annotators, <b>4 to review</b>" in page
    assert cells(page, "human") == ["8 of 8", "2.5", "1.00", "1.00", "–"]  # all alike: alpha is undefined
    assert "cannot complete" not in page
    assert cells(page, "1")[:4] == ["finished review", "4", "2.5", "1 of 1"]
    assert cells(page, "5")[:4] == ["not started", "0", "–", "–"]
    exclude(store, 1)
    assert "<b>3 to review</b>" in admin.get("/admin").page


def test_unmeasured_times_are_shown_as_dashes(admin: Person, app: FastAPI, store: Store) -> None:
    finish(app, store, 1, milliseconds="")
    assert admin.get("/admin").page.count('<td data-name="seconds">–</td>') == 3  # two conditions, one annotator


def test_results_so_far_are_shown_and_updated(admin: Person, app: FastAPI, store: Store) -> None:
    assert admin.get("/admin/results").alerts == ["There are no answers yet, so there are no results."]
    finish(app, store)
    page = admin.get("/admin/results").page
    assert "8 of 16 answers by 2 annotators. Still missing: 8." in page
    assert cells(page, "human") == ["4", ".500 (.000–1.000)", "3.00 (3.00–3.00)", "0.00", "4.00 (4.00–4.00)", "0.00"]
    assert "Krippendorff" in page
    assert "human − full" in page
    assert admin.get("/admin/results").page == page
    admin.get("/admin").post("/admin/person", annotator=1, action="exclude")
    assert "4 of 16 answers by 1 annotator." in admin.get("/admin/results").page


def test_a_study_is_paused_and_resumed(admin: Person, app: FastAPI, store: Store) -> None:
    person = finish_practice(visitor(app).enter(add_annotators(store, 1)[0]))
    admin.post("/admin/pause", paused="yes")
    assert "The study is paused: nobody gets a new text." in admin.page
    said = "The study is paused. Come back later; your answers are saved."
    assert (person.send().status, person.alerts) == (503, [said])
    assert person.answer.headers["retry-after"] == "600"
    assert "Try again" in person.page
    assert get_overview(store).n_answered == 1
    admin.post("/admin/pause", paused="no")
    assert "The study is paused" not in admin.page
    assert person.get("/item").status == 200
    admin.post("/admin/pause", paused="maybe")
    assert (admin.status, admin.alerts) == (422, ["paused must be yes or no, got 'maybe'."])


def test_people_are_excluded_and_readmitted(admin: Person, app: FastAPI, store: Store) -> None:
    """Asked first, and said afterwards; all without scripts."""
    finish(app, store)
    page = admin.get("/admin").page
    assert 'href="/admin/person/1/exclude" aria-label="Exclude annotator 1">Exclude</a>' in page
    assert "<h1>Exclude annotator 1?</h1>" in admin.get("/admin/person/1/exclude").page
    assert "So far: finished, 4 answers, 1 of 1 check failed." in admin.page
    assert "8 of 16 answers" in admin.get("/admin").page  # nothing was done yet
    admin.post("/admin/person", annotator=1, action="exclude")
    assert "4 of 16 answers" in admin.page
    assert done(admin) == "Annotator 1 is excluded: none of their answers count. Texts that go to others: 4."
    assert cells(admin.page, "1")[0] == "excluded"
    assert "<h1>Readmit annotator 1?</h1>" in admin.get("/admin/person/1/readmit").page
    admin.post("/admin/person", annotator=1, action="readmit")
    assert "8 of 16 answers" in admin.page
    assert done(admin) == "Annotator 1 takes part again, and their answers count."
    leave(store, 2)
    assert cells(admin.get("/admin").page, "2")[0] == "left review"
    admin.post("/admin/person", annotator=1, action="exclude")
    finish(app, store, 3)
    admin.get("/admin/person/1/readmit").post("/admin/person", annotator=1, action="readmit")
    assert done(admin) == (
        "Annotator 1 takes part again, and their answers count. "
        "Answers that do not count, since others got the texts meanwhile: 4."
    )


def test_only_changes_that_happened_are_confirmed(admin: Person, store: Store) -> None:
    add_annotators(store, 1)
    assert done(admin.get("/admin?did=readmit&annotator=1&number=0"))
    for query in (
        "did=exclude&annotator=1&number=4",
        "did=x&annotator=1&number=4",
        "did=readmit&annotator=9&number=4",
        "did=readmit&annotator=1&number=<b>",
    ):
        assert admin.get(f"/admin?{query}").status == 200
        assert not done(admin)


def test_resubmitted_forms_make_no_second_code(admin: Person, store: Store) -> None:
    """A browser sends the same form once more."""
    admin.get("/admin")
    sent = {"form": admin.field("form"), "number": 2, "after": admin.field("after")}
    assert admin.post("/admin/codes", **sent).page.count("<h1>New codes</h1>") == 1
    assert admin.post("/admin/codes", **sent).status == 409
    assert "<h1>Already done</h1>" in admin.page
    assert "these codes may already have been made" in admin.alerts[0]
    assert len(get_overview(store).annotators) == 2
    admin.get("/admin/person/1/renew")
    sent = {"form": admin.field("form"), "annotator": 1, "action": "renew", "mark": admin.field("mark")}
    [code] = re.findall(r"\d+-\w{4}-\w{4}-\w{4}", admin.post("/admin/person", **sent).page)
    assert admin.post("/admin/person", **sent).status == 409
    assert "Annotator 1 already has a new code, which was shown once." in admin.alerts[0]
    assert sign_in(store, code) is not None


def test_codes_are_made_and_renewed(admin: Person, app: FastAPI, store: Store) -> None:
    admin.get("/admin").post("/admin/codes", number=3, after=admin.field("after"))
    codes = re.findall(r"\d+-\w{4}-\w{4}-\w{4}", admin.page)
    assert "shown once and stored nowhere" in admin.page
    assert [sign_in(store, code) is not None for code in codes] == [True] * 3
    person = visitor(app).enter(codes[1])
    admin.get("/admin/person/2/renew").post("/admin/person", annotator=2, action="renew", mark=admin.field("mark"))
    assert person.get("/item").status == 401
    [code] = re.findall(r"\d+-\w{4}-\w{4}-\w{4}", admin.page)
    assert visitor(app).get().post("/sign-in", code=codes[1]).status == 403
    assert "<h1>What to do</h1>" in visitor(app).get().post("/sign-in", code=code).page  # who agreed already
    for number in ("0", "101", "", "many", "-1", "\u00b2"):
        admin.get("/admin").post("/admin/codes", number=number)
        assert admin.alerts == [f"The number of new codes must be from 1 to 100, got {number!r}."]
        assert "Back to the admin page" in admin.page
    assert len(get_overview(store).annotators) == 3


def test_unknown_annotators_and_actions_are_reported(admin: Person) -> None:
    admin.post("/admin/person", annotator=77, action="exclude")
    assert (admin.status, admin.alerts) == (422, ["There is no annotator 77 in this study."])
    admin.get("/admin").post("/admin/codes", number=1, after=admin.field("after"))
    admin.get("/admin").post("/admin/person", annotator=1, action="exlude")
    assert admin.alerts == ["exlude is not an action. Did you mean exclude?"]
    assert admin.get("/admin/person/1/exlude").alerts == admin.alerts
    for wrong in ("77", "x", "0"):
        assert admin.get(f"/admin/person/{wrong}/exclude").alerts == [f"There is no annotator {wrong} in this study."]


def test_every_export_can_be_downloaded(admin: Person, app: FastAPI, store: Store) -> None:
    finish(app, store)
    rows = list(csv.DictReader(io.StringIO(admin.get("/admin/export/csv").page)))
    assert len(rows) == len(read_answers(store)) == 12
    lines = admin.get("/admin/export/jsonl").page.splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("real") == 8
    names = ("answers.csv", "answers.jsonl", "mturk-batch.zip", "prolific-participants.csv", "potato-items.zip")
    for form, name in zip(FORMATS, (*names, "label-studio-tasks.zip"), strict=True):
        answer = admin.get(f"/admin/export/{form}").answer
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        if answer.headers["content-type"] == "application/zip":
            with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
                assert len(archive.namelist()) == 2
    assert admin.get("/admin/export/cvs").alerts == ["cvs is not an export format. Did you mean csv?"]
    assert admin.status == 404


def test_the_admin_pages_need_the_secret(app: FastAPI, store: Store) -> None:
    person = visitor(app).enter(add_annotators(store, 1)[0])
    for code in ("", "aaaa-bbbb-cccc"):
        person.get("/admin").post("/admin/sign-in", code=code)  # also while there is no secret at all
        assert (person.status, person.alerts[0].startswith("This is not the secret")) == (403, True)
    assert "Admin page</h1>" in person.get("/admin").page
    for path in PATHS:
        assert (person.get(path).status, person.alerts) == (401, ["You are not signed in. Sign in first."])
    for path in POSTED:
        assert person.get().post(path).status == 401


@pytest.mark.parametrize("path", POSTED)
def test_forms_from_other_sessions_are_refused(admin: Person, path: str) -> None:
    admin.get("/admin").post(path, form="0" * 64, paused="yes", number="1")
    assert admin.status == 403
    assert admin.alerts[0].startswith("This form belongs to another visit")


def test_signing_out_ends_all_sessions_of_the_admin_page(stored: Store, database: str) -> None:
    """On all servers, and for a cookie that somebody copied; annotators are not concerned."""
    with closing(open_study(database)) as same_study:
        app, secret = create_app(stored), make_admin_secret(stored)
        admin = visitor(app).get("/admin").post("/admin/sign-in", code=secret)
        thief = visitor(create_app(same_study))
        thief.client.cookies.update(admin.client.cookies)
        person = visitor(app).enter(add_annotators(stored, 1)[0])
        assert thief.get("/admin/results").status == 422  # there are none yet
        admin.get("/admin").post("/admin/sign-out")
        assert "Admin page</h1>" in admin.page
        assert (thief.get("/admin/results").status, thief.alerts) == (401, ["You are not signed in. Sign in first."])
        assert thief.post("/admin/pause", paused="yes").status == 401
        assert person.get("/item").status == 200
        assert "<h1>Progress</h1>" in admin.post("/admin/sign-in", code=secret).page
        assert thief.get("/admin/results").status == 401
