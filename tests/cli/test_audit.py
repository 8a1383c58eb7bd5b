import json
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.audit.checks import Audit
from fresh.cli.main import main
from fresh.data.config import DataConfig
from fresh.data.splits import Splits, load_splits, read_examples
from fresh.document import Example
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import HumanRationales

CPU = ("--device", "cpu")
BROKEN = Verdict("invariance", "broken", "In 1 of 2 trials [bold]x\x1b.", ("document 'x': [a] b",))
LOOK = Verdict("split hygiene", "look here", "Twins.")
FINE = Verdict("replay", "holds", "All 3.", ("3 predictions.",))
COLUMNS = ("--text", "review", "--label", "stars", "--id", "name")


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    made = small.rationalizer(support, predictor, TopK(0.2), "attention")
    return Rationalizer(made.extractor, made.predictor, {"method": "fresh", "train": {"seed": 5}})


@pytest.fixture(scope="module")
def saved(model: Rationalizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("audit") / "model"
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def reviews(toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One file, with columns by other names."""
    names = {"id": "name", "text": "review", "label": "stars"}
    table = [{names[key]: value for key, value in row.items()} for row in small.rows((*toy.dev, *toy.test))]
    return str(small.write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", table))


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is given to the audit, which then finds nothing."""
    given: list[tuple[Any, ...]] = []

    def audit(*arguments: Any) -> Audit:
        given.append(arguments)
        return Audit((FINE, LOOK), "It covers this.")

    monkeypatch.setattr("fresh.audit.checks.audit", audit)
    return given


def ids(examples: tuple[Example, ...]) -> list[str]:
    return [example.document.id for example in examples]


def test_a_saved_model_is_audited(saved: str, reviews: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("--json", str(tmp_path / "audit.json"), "--markdown", str(tmp_path / "audit.md"))
    assert main(["audit", saved, reviews, *COLUMNS, "--test-share", "0.5", "--trials", "60", *files, *CPU]) == 0
    record = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert record["holds"] is True
    found = {item["name"]: item["found"] for item in record["verdicts"]}
    assert (found["replay"], found["invariance"], found["asked class"]) == ("holds", "holds", "not run")
    assert found["split hygiene"] != "not run"
    assert record["verdicts"][1]["evidence"][0].startswith("60 trials on 32 documents; ")
    page = (tmp_path / "audit.md").read_text(encoding="utf-8")
    assert page.startswith("| check | verdict | finding |\n| --- | --- | --- |\n| replay | holds | All 32 predictions")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "audit.md"]
    shown = capsys.readouterr().out
    assert "holds replay: All 32 predictions" in shown
    assert "What is not certain: why these words were selected." in shown
    assert "\nNothing is broken." in shown


def test_the_test_part_is_the_one_that_training_left_out(
    saved: str, reviews: str, audited: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", saved, reviews, *COLUMNS, *CPU]) == 0
    [(model, examples, others, n_trials, seed, _progress, explained)] = audited
    assert explained is None
    splits = load_splits(reviews, DataConfig(text="review", label="stars", id="name"), seed=5)
    assert ids(examples) == ids(splits.test)
    assert {name: ids(part) for name, part in others.items()} == {"train": ids(splits.train), "dev": ids(splits.dev)}
    assert (model.labels, n_trials, seed) == (("neg", "pos"), 2000, 5)
    assert capsys.readouterr().out == (
        "holds replay: All 3.\n    3 predictions.\nlook here split hygiene: Twins.\n\nIt covers this.\n\n"
        "Nothing is broken. Look at: split hygiene.\n"
    )


def test_another_seed_leaves_out_other_documents(
    saved: str, reviews: str, audited: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", saved, reviews, *COLUMNS, "--seed", "6", *CPU]) == 0
    assert "The model was trained with seed 5. With seed 6, the test split may hold training documents" in " ".join(
        capsys.readouterr().err.split()
    )
    splits = load_splits(reviews, DataConfig(text="review", label="stars", id="name"), seed=6)
    assert ids(audited[0][1]) == ids(splits.test)
    assert audited[0][4] == 6


def test_files_for_dev_and_test_are_taken_whole(
    saved: str, toy: Splits, audited: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    parts = {
        name: str(small.write_csv(tmp_path / f"{name}.csv", small.rows(getattr(toy, name))))
        for name in ("train", "dev", "test")
    }
    assert main(["audit", saved, parts["train"], "--dev", parts["dev"], "--test", parts["test"], *CPU]) == 0
    assert ids(audited[0][1]) == ids(toy.test)
    assert ids(audited[0][2]["dev"]) == ids(toy.dev)


def test_a_corpus_is_read_by_its_name(saved: str, audited: list[tuple[Any, ...]], tmp_path: Path, toy: Splits) -> None:
    for name in ("train", "dev", "test"):
        rows = [{"document": row["text"], "label": row["label"]} for row in small.rows(getattr(toy, name)[:12])]
        small.write_jsonl(tmp_path / f"{name}.jsonl", rows)
    assert main(["audit", saved, "sst", "--data-dir", str(tmp_path), *CPU]) == 0
    assert [example.label for example in audited[0][1]] == [example.label for example in toy.test[:12]]


def test_documents_without_a_mark_are_left_out_where_people_choose(
    predictor: Predictor, toy: Splits, audited: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    Rationalizer(HumanRationales.of((*toy.train, *toy.dev, *toy.test)), predictor).save_pretrained(tmp_path / "model")
    rows = [
        {"text": item.document.text, "label": item.label, "rationale": [[0, 3]] if number % 2 else []}
        for number, item in enumerate((*toy.dev, *toy.dev[1:], *toy.test))
    ]
    data = small.write_jsonl(tmp_path / "data.jsonl", rows)
    assert main(["audit", str(tmp_path / "model"), str(data), "--test-share", "0.4", *CPU]) == 0
    assert audited[0][1]
    assert all(example.human is not None and example.human.kept.any() for example in audited[0][1])


def test_documents_that_are_too_long_are_left_out_when_asked(
    saved: str, toy: Splits, audited: list[tuple[Any, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = small.rows(toy.test)
    table[0]["text"] = "film " * 100_000
    train = str(small.write_csv(tmp_path / "train.csv", small.rows(toy.train)))
    test = str(small.write_csv(tmp_path / "test.csv", table))
    assert main(["audit", saved, train, "--test", test, "--skip-bad", *CPU]) == 0
    assert ids(audited[0][1]) == ids(toy.test)[1:]
    assert "Left out 1 of 32 rows: Text 'test-0' has 100000 words" in capsys.readouterr().err


def test_something_broken_has_its_own_status(
    saved: str, reviews: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fresh.audit.checks.audit", lambda *_given: Audit((FINE, BROKEN), "It covers this."))
    assert main(["audit", saved, reviews, *COLUMNS, *CPU]) == 3
    shown = capsys.readouterr().out
    assert "broken invariance: In 1 of 2 trials [bold]x␛.\n    document 'x': [a] b\n" in shown
    assert shown.endswith("\nBroken: invariance.\n")


def test_labels_that_were_never_learnt_are_refused(
    saved: str, toy: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [{**row, "label": {"pos": "good", "neg": "bad"}[row["label"]]} for row in small.rows(toy.dev)]
    data = str(small.write_csv(tmp_path / "data.csv", table))
    assert main(["audit", saved, data, *CPU]) == 1
    assert "trained with the labels neg, pos" in capsys.readouterr().err


def test_a_page_holds_verdicts_and_figures_and_is_replaced_only_when_asked_for(
    saved: str, reviews: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "audit.html"
    command = ["audit", saved, reviews, *COLUMNS, "--trials", "50", "--html", str(page), *CPU]
    assert main(command) == 0
    text = page.read_text(encoding="utf-8")
    assert "invariance" in text
    assert "random words, same predictor" in text
    capsys.readouterr()
    assert main(command) == 1
    message = f"fresh audit: {page} already exists. Choose another path, or replace it: --overwrite.\n"
    assert capsys.readouterr().err == message
    assert page.read_text(encoding="utf-8") == text


def test_a_file_that_is_new_as_a_whole_is_audited_as_a_whole(
    saved: str, reviews: str, audited: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", saved, reviews, *COLUMNS, "--whole", *CPU]) == 0
    [(_, examples, others, *_)] = audited
    config = DataConfig(text="review", label="stars", id="name")
    assert ids(examples) == ids(tuple(read_examples(reviews, config)))
    assert others == {}
    capsys.readouterr()
    assert main(["audit", saved, reviews, reviews, *COLUMNS, "--whole", *CPU]) == 1
    assert "--whole is for one file" in capsys.readouterr().err
