"""What whoever sets up their first study runs into."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from fresh.cli.main import main
from fresh.cli.study import _shown_study
from fresh.document import Document
from fresh.study.annotators import add_annotators
from fresh.study.config import _Texts
from fresh.study.export import export_study
from fresh.study.items import make_plan
from fresh.study.ratings import Response
from fresh.study.results import make_results, probability
from fresh.study.store import create_study
from fresh.study.web.app import create_app
from studies import corpus, load, plan, study, two_ways
from visitors import visitor

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "study.md"


def told(capsys: pytest.CaptureFixture[str], *given: str) -> str:
    """Run a command that fails, and take what it says."""
    assert main(["study", *given]) == 1
    return capsys.readouterr().err


def test_the_example_with_potato_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_study("my-study", plan(two_ways())).close()
    [block] = [part for part in HOW_TO.read_text(encoding="utf-8").split("```") if "potato start" in part]
    for line in block.strip().splitlines():
        command, *given = shlex.split(line, comments=True)
        if command == "mkdir":
            Path(*given).mkdir()
        elif command == "fresh" and "export" in given:
            assert main(given) == 0
        elif command == "potato":
            assert Path(given[-1]).is_file()


def test_the_usual_texts_are_true_of_all_conditions() -> None:
    assert "short" not in _Texts().consent
    assert _Texts().instructions.startswith("Each page shows a text, or only some words of one:")


def test_a_name_that_no_corpus_has_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text("corpus = 'imdb'\n[conditions.all]\nkind = 'full_text'\n", encoding="utf-8")
    assert told(capsys, "new", "s.toml", "--out", "x") == (
        "fresh study: imdb does not exist, and imdb is not the name of a corpus. "
        "There are: sst, agnews, evinf, movies, multirc, each with data_dir in s.toml. Else name a file.\n"
    )


def test_no_probability_is_nothing() -> None:
    assert [probability(p) for p in (0.0, 0.0004, 0.00099, 0.001, 1.0, None)] == [
        *["<.001"] * 3,
        ".001",
        "1.000",
        "–",
    ]
    rated = ((document, way) for document in range(40) for way in range(2))
    answers = [
        Response(way, 2 * d + way, d, d, "ab"[way], "pos", ("neg", "pos")[way], 1 + 3 * way, 1 + 3 * way)
        for d, way in rated
    ]
    [first, *_] = make_results(answers, "ab", ["neg", "pos"], 1, 80).pairs_table().rows
    assert first[4] == "<.001"


def test_a_title_is_text_in_markdown_too() -> None:
    answers = [Response(1, 1, 0, 0, "a", "pos", "pos", 1, 1)]
    made = make_results(answers, "a", ["neg", "pos"], 1, 1, "C# *and* [F](x) <b>_1_ | 2")
    assert made.to_markdown().splitlines()[0] == r"# C\# \*and\* \[F\](x) \<b\>\_1\_ \| 2"


def test_status_names_the_study_to_make_codes_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    create_study("my study", plan(two_ways(), per_item=2)).close()
    assert main(["study", "status", "my study"]) == 0
    assert "Make codes: fresh study codes 'my study' 4\n" in capsys.readouterr().out
    url = _shown_study("postgresql://me:secret@db.example.org/films")
    assert url == "'postgresql://me:***@db.example.org/films'"


def test_signs_that_turn_texts_round_are_shown_and_kept(tmp_path: Path) -> None:
    examples = [
        replace(example, document=Document.from_words(("a\u202eb", "c"), id=example.document.id), human=None)
        for example in corpus()
    ]
    made = make_plan(study({"full": {"kind": "full_text"}}, practice=0, checks=0), examples, load)
    store = create_study(tmp_path / "s", made)
    person = visitor(create_app(store)).enter(add_annotators(store, 1)[0]).get("/item")
    assert person.text == "a\ufffdb c"
    [file, _] = export_study(store, "potato", tmp_path / "items.jsonl")
    assert "a\u202eb c" in file.read_text(encoding="utf-8")
    store.close()


def test_rows_for_a_study_are_kept_apart_as_the_docs_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows of a file of one's own may be drawn."""
    monkeypatch.chdir(tmp_path)
    Path("test.csv").write_text("text,label\na good film,pos\na bad film,neg\n", encoding="utf-8")
    settings = "sample = 2\npractice = 0\n[conditions.all]\nkind = 'full_text'\n"
    Path("s.toml").write_text(f"corpus = 'test.csv'\n{settings}", encoding="utf-8")
    assert main(["study", "new", "s.toml", "--out", "x"]) == 0
    assert capsys.readouterr().out.startswith("2 documents in 1 condition, 6 answers wanted.\n")
    assert 'fresh train train.csv --test test.csv`, and `corpus = "test.csv"`' in HOW_TO.read_text(encoding="utf-8")


def test_who_has_not_left_is_not_told_so(tmp_path: Path) -> None:
    store = create_study(tmp_path / "s", plan(two_ways()))
    app, [code] = create_app(store), add_annotators(store, 1)
    person = visitor(app).enter(code)
    assert "<h1>What to do</h1>" in person.get("/left").page
    sent = person.client.post("/leave", data={"form": person.field("form")}, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/left")
    assert "<h1>You have left the study</h1>" in person.get("/left").page
    store.close()
