import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fresh.audit
import small
from command import Command
from fresh.audit import Audit
from fresh.data import Splits, load_splits, read_examples
from fresh.data.config import DataConfig
from fresh.document import Example
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict
from fresh.selection.extractors import FullText, HumanRationales

BROKEN = Verdict("invariance", "broken", "In 1 of 2 trials [bold]x\x1b.", ("document 'x': [a] b",))
LOOK = Verdict("split hygiene", "look here", "Twins.")
FINE = Verdict("replay", "holds", "All 3.", ("3 predictions.",))
CONFIG = DataConfig(text="review", label="stars", id="name")
COLUMNS = ("--text", "review", "--label", "stars", "--id", "name")


@pytest.fixture(scope="module")
def reviews(toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One file, with columns by other names."""
    names = {"id": "name", "text": "review", "label": "stars"}
    table = [{names[key]: value for key, value in row.items()} for row in small.rows((*toy.dev, *toy.test))]
    return str(small.write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", table))


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arguments of the audit, which is replaced by one that finds nothing."""
    given: list[Any] = []

    def audit(*arguments: Any, reader: Predictor | None) -> Audit:
        assert reader is None  # none lies beside the model
        given.append(arguments)
        return Audit((FINE, LOOK), "It covers this.")

    monkeypatch.setattr(fresh.audit, "audit", audit)
    return given


@pytest.fixture
def audit(saved_attention: str, command: Command) -> Command:
    """Audits the model that was trained with seed 5."""
    return partial(command, "audit", saved_attention)


def ids(examples: tuple[Example, ...]) -> list[str]:
    return [example.document.id for example in examples]


def test_a_saved_model_is_audited(reviews: str, audit: Command) -> None:
    files = ("--json", "audit.json", "--markdown", "audit.md")
    shown = audit(reviews, *COLUMNS, "--test-share", "0.5", "--trials", "60", *files).out
    record = json.loads(Path("audit.json").read_text(encoding="utf-8"))
    assert record["holds"] is True
    found = {item["name"]: item["found"] for item in record["verdicts"]}
    assert (found["replay"], found["invariance"], found["target class"]) == ("holds", "holds", "not run")
    assert found["split hygiene"] != "not run"
    assert record["verdicts"][1]["evidence"][0].startswith("60 trials on 32 documents; ")
    page = Path("audit.md").read_text(encoding="utf-8")
    assert page.startswith("| check | verdict | finding |\n| --- | --- | --- |\n| replay | holds | All 32 predictions")
    assert sorted(path.name for path in Path().iterdir()) == ["audit.json", "audit.md"]
    assert "holds replay: All 32 predictions" in shown
    assert "What is not certain: why these words were selected." in shown
    assert "\nNothing is broken." in shown


@pytest.mark.parametrize(("options", "seed"), [((), 5), (("--seed", "6"), 6)])
def test_data_are_split_with_the_seed_of_the_training_or_the_given_one(
    options: tuple[str, ...], seed: int, reviews: str, audited: list[Any], audit: Command
) -> None:
    shown = audit(reviews, *COLUMNS, *options)
    [(model, examples, others, n_trials, used_seed, _progress, explained)] = audited
    splits = load_splits(reviews, CONFIG, seed=seed)
    assert ids(examples) == ids(splits.test)
    assert {name: ids(part) for name, part in others.items()} == {"train": ids(splits.train), "dev": ids(splits.dev)}
    assert (model.labels, n_trials, used_seed, explained) == (("neg", "pos"), 2000, seed, None)
    warning = "The model was trained with seed 5. With seed 6, the test split may hold training documents"
    assert (warning in " ".join(shown.err.split())) == (seed == 6)
    assert shown.out == (
        "holds replay: All 3.\n    3 predictions.\nlook here split hygiene: Twins.\n\nIt covers this.\n\n"
        "Nothing is broken. Look at: split hygiene.\n"
    )


@pytest.mark.parametrize("is_corpus", [False, True])
def test_splits_of_the_data_are_kept(
    is_corpus: bool, sst: tuple[str, ...], toy: Splits, audited: list[Any], audit: Command
) -> None:
    files = ("train.jsonl", "--dev", "dev.jsonl", "--test", "test.jsonl", "--text", "document")
    audit(*(sst if is_corpus else files))
    [(_, examples, others, *_)] = audited
    for found, expected in ((examples, toy.test), (others["dev"], toy.dev), (others["train"], toy.train)):
        assert [example.document.text for example in found] == [example.document.text for example in expected[:12]]


def test_a_model_of_human_rationales_is_audited_on_annotated_documents(
    predictor: Predictor, toy: Splits, audited: list[Any], command: Command
) -> None:
    Rationalizer(HumanRationales.of((*toy.train, *toy.dev, *toy.test)), predictor).save_pretrained(Path("model"))
    rows = [
        {"text": item.document.text, "label": item.label, "rationale": [[0, 3]] if number % 2 else []}
        for number, item in enumerate((*toy.dev, *toy.dev[1:], *toy.test))
    ]
    command("audit", "model", small.write_jsonl(Path("data.jsonl"), rows), "--test-share", "0.4")
    assert audited[0][1]
    assert all(example.human is not None and example.human.kept.any() for example in audited[0][1])


def test_skip_bad_leaves_out_documents_that_are_too_long(toy: Splits, audited: list[Any], audit: Command) -> None:
    table = small.rows(toy.test)
    table[0]["text"] = "film " * 100_000
    train = small.write_csv(Path("train.csv"), small.rows(toy.train))
    shown = audit(train, "--test", small.write_csv(Path("t.csv"), table), "--skip-bad")
    assert ids(audited[0][1]) == ids(toy.test)[1:]
    assert "Left out 1 of 32 rows: Text 'test-0' has 100,000 words" in shown.err


def test_a_broken_guarantee_has_its_own_status(reviews: str, monkeypatch: pytest.MonkeyPatch, audit: Command) -> None:
    monkeypatch.setattr(fresh.audit, "audit", lambda *_, **__: Audit((FINE, BROKEN), "It covers this."))
    shown = audit(reviews, *COLUMNS, status=3).out
    assert "broken invariance: In 1 of 2 trials [bold]x␛.\n    document 'x': [a] b\n" in shown
    assert shown.endswith("\nBroken: invariance.\n")


def test_a_page_has_verdicts_and_figures(reviews: str, audit: Command) -> None:
    audit(reviews, *COLUMNS, "--trials", "50", "--html", "audit.html")
    text = Path("audit.html").read_text(encoding="utf-8")
    assert "invariance" in text
    assert "random words, same predictor" in text


def test_whole_audits_every_row_of_one_file(reviews: str, audited: list[Any], audit: Command) -> None:
    audit(reviews, *COLUMNS, "--whole")
    [(_, examples, others, *_)] = audited
    assert ids(examples) == ids(tuple(read_examples(reviews, CONFIG)))
    assert others == {}


def test_saved_explanations_are_replayed_bit_for_bit(
    saved_attention: str, toy: Splits, audit: Command, command: Command
) -> None:
    table = [{"name": item.document.id, "review": item.document.text} for item in (*toy.train, *toy.test)]
    table[3]["review"] = "film " * 100_000
    data = small.write_csv(Path("data.csv"), table)
    columns = ("--text", "review", "--id", "name", "--skip-bad")
    command("explain", saved_attention, "--input", data, *columns, "--output", "explained.jsonl")
    shown = audit(data, "--explained", "explained.jsonl", *columns, "--json", "audit.json")
    assert len(table) > 257  # several batches
    assert f"holds replay: All {len(table) - 1} saved predictions" in shown.out
    assert "equal those in the file, bit for bit.\n" in shown.out
    assert "leave --explained out to run them.\n\nNothing is broken.\n" in shown.out
    assert "Left out 1 of " in shown.err
    [verdict] = json.loads(Path("audit.json").read_text(encoding="utf-8"))["verdicts"]
    assert (verdict["name"], verdict["found"]) == ("replay", "holds")


def test_the_reader_beside_the_model_or_a_given_one_is_asked(
    reviews: str, saved_attention: str, predictor: Predictor, audit: Command
) -> None:
    reader = Rationalizer(FullText(), predictor, {"method": "independent"})
    reader.save_pretrained("given")
    shown = audit(reviews, *COLUMNS, "--whole", "--trials", "5", "--reader", "given").out
    assert "independent reader: A predictor of random words" in shown or "cannot judge rationales" in shown
    assert "holds independent reader" not in audit(reviews, *COLUMNS, "--whole", "--trials", "5").out
    error = audit(reviews, *COLUMNS, "--whole", "--reader", saved_attention, status=1).err
    assert "is a model, but no independent reader" in error
