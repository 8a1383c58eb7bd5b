import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.audit.checks import GUARANTEE, audit
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.errors import ConfigError, DataError, ModelError, OutputError
from fresh.evaluation.baselines import majority_label, random_masks, train_baselines
from fresh.evaluation.evaluation import evaluate
from fresh.evaluation.warnings import MIN_DOCUMENTS
from fresh.methods.config import FreshConfig, LeiConfig, TaggerConfig
from fresh.metrics.classification import accuracy, class_scores, macro_f1
from fresh.pipeline import AUDIT_TRIALS, _advice, read_usable_splits, resolve_settings, run_identity, train
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Row
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext


@pytest.fixture(scope="module")
def quick_settings(encoders: dict[str, Path]) -> dict[str, Any]:
    return {**small.run_settings(encoders["bert"], epochs=1, baseline=False), "progress": SILENT}


@pytest.fixture(scope="module")
def splits(toy: Splits) -> Splits:
    return small.some(toy)


@pytest.fixture(scope="module")
def full(splits: Splits, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Rationalizer:
    """A model trained with everything that training does, and saved."""
    place = tmp_path_factory.mktemp("full") / "model"
    settings = small.run_settings(encoders["bert"], epochs=6, ratio=0.3)
    model = train(splits, out=place, progress=SILENT, **settings)
    saved = Rationalizer.from_pretrained(place)
    assert small.reported(saved.report) == small.reported(model.report)
    assert sorted(path.name for path in place.parent.iterdir()) == ["model", "model-report.html"]
    for path in (place / "config.json", place / "README.md"):
        assert str(encoders["bert"]) not in path.read_text(encoding="utf-8")
    return model


def test_missing_splits_are_taken_from_train(splits: Splits) -> None:
    pairs = [(example.document.text, example.label) for example in splits.train]
    for data in (pairs, pd.DataFrame(pairs, columns=["text", "label"])):
        run = resolve_settings(data, None, None, {"dev_share": 0.2, "test_share": 0.25})
        found = read_usable_splits(data, None, run, SILENT)
        assert (len(found.train), len(found.dev), len(found.test)) == (26, 10, 12)


def test_the_report_equals_one_computed_by_hand(full: Rationalizer, splits: Splits, encoders: dict[str, Path]) -> None:
    config = resolve_settings(splits, None, None, small.run_settings(encoders["bert"], epochs=6, ratio=0.3)).method
    documents = [example.document for example in splits.test]
    gold = [example.label for example in splits.test]
    explained = full.explain(documents)
    masks = [item.mask for item in explained]
    learned = [full.extractor.extract([example.document for example in part]) for part in (splits.train, splits.dev)]
    baselines = train_baselines(splits, full, (learned[0], learned[1]), None, config, RunContext())
    assert isinstance(baselines.independent, Predictor)
    assert isinstance(baselines.complement, Predictor)
    random, dropped = random_masks(documents, masks, contiguous=False), [~mask for mask in masks]
    support: SupportModel = full.extractor.support  # type: ignore[attr-defined]
    kept = float(np.concatenate([mask.kept for mask in masks]).mean())
    reader = baselines.independent
    answers = {
        "full text (support model)": (support.predict(documents), 1.0),
        "FRESH (attention_gradient)": ([item.prediction for item in explained], kept),
        "independent reader": (reader.predict([item.rationale for item in explained]), kept),
        "random words (independent)": (reader.predict(list(map(Document.cut, documents, random))), kept),
        "complement": (baselines.complement.predict(list(map(Document.cut, documents, dropped))), 1 - kept),
    }
    report = small.reported(full.report)
    assert report.n_documents == len(documents) == 16
    *rows, majority = report.rows
    assert [row.name for row in rows] == list(answers)
    assert majority.name == f"majority class ({majority_label(splits.train)})"
    for row, (predicted, share) in zip(rows, answers.values(), strict=True):
        given = [answer.label for answer in predicted]
        assert row.macro_f1 == macro_f1(gold, given, ["neg", "pos"])
        assert row.accuracy == accuracy(gold, given)
        assert row.kept == pytest.approx(share)
        scores = class_scores(gold, given, ["neg", "pos"])
        assert [(one.label, one.f1) for one in row.classes] == [(one.label, one.f1) for one in scores]


def test_without_baseline_the_same_predictor_reads_the_rest(splits: Splits, quick_settings: dict[str, Any]) -> None:
    report = small.reported(train(splits, **quick_settings).report)
    shown = ["random words, same predictor", "complement, same predictor", "majority class (neg)"]
    assert [row.name for row in report.rows][2:] == shown
    assert report.rows[1].kept == report.rows[2].kept
    assert report.verdicts == ()  # nor is it audited


def test_verdicts_of_the_audit_are_in_the_report_and_on_the_page(
    splits: Splits, quick_settings: dict[str, Any], tmp_path: Path
) -> None:
    model = train(splits, out=tmp_path / "model", **{**quick_settings, "audit": True})
    report = small.reported(model.report)
    others = {"train": splits.train, "dev": splits.dev}
    assert report.verdicts == audit(model, splits.test, others, AUDIT_TRIALS).verdicts
    assert {verdict.name: verdict.found for verdict in report.verdicts}["invariance"] == "holds"
    assert report.guarantee == GUARANTEE
    page = (tmp_path / "model-report.html").read_text(encoding="utf-8")
    assert all(verdict.name in page for verdict in report.verdicts)


def method_settings(*given: Any) -> Any:
    return resolve_settings(*given).method


def test_the_independent_reader_is_part_of_the_model_and_loaded_for_audits_only(
    full: Rationalizer, splits: Splits, quick: ClassifierConfig, tmp_path: Path
) -> None:
    full.save_pretrained(tmp_path / "model")
    weights = tmp_path / "model" / "reader" / "model.safetensors"
    loaded = Rationalizer.from_pretrained(tmp_path / "model")
    own, read = full.load_reader(), loaded.load_reader()
    assert own is not None
    assert read is not None
    rationales = [item.rationale for item in full.explain([example.document for example in splits.test])]
    assert read.predict(rationales) == own.predict(rationales)
    assert evaluate(loaded, splits.test).report.rows == evaluate(full, splits.test).report.rows
    verdicts = {verdict.name: verdict for verdict in audit(loaded, splits.test, n_trials=10).verdicts}
    assert len(verdicts["independent reader"].evidence) == 3  # it was measured
    make, files = loaded.__reduce__()  # as for workers of other processes
    assert make(*files).load_reader() is not None
    loaded.save_pretrained(tmp_path / "model", overwrite=True)  # does not lose it
    assert loaded.load_reader() is not None
    # Explaining does not read it, and so does not check it.
    weights.write_bytes(b"?" + weights.read_bytes()[1:])
    again = Rationalizer.from_pretrained(tmp_path / "model")
    for use in (again.load_reader, lambda: again.save_pretrained(tmp_path / "other")):
        with pytest.raises(ModelError, match=r"reader/model\.safetensors has changed"):
            use()
    shutil.rmtree(tmp_path / "model" / "reader")
    assert Rationalizer.from_pretrained(tmp_path / "model").load_reader() is None
    other = Predictor.train([(Rationale(("a",)), label) for label in "ab"] * 2, [(Rationale(("a",)), "a")], quick)
    with pytest.raises(ModelError, match="answers with a, b, but the model with neg, pos"):
        swap_reader(full, other, tmp_path / "swapped").load_reader()


def swap_reader(model: Rationalizer, reader: Predictor, folder: Path) -> Rationalizer:
    replace(model, reader=reader).save_pretrained(folder)
    return Rationalizer.from_pretrained(folder)


def test_warnings_about_the_corpus_are_in_the_report(splits: Splits, quick_settings: dict[str, Any]) -> None:
    with pytest.warns(RuntimeWarning, match=r"^Half of the training documents have \d words or fewer"):
        model = train(splits, **quick_settings)
    assert any(note.startswith("Half of the training documents") for note in small.reported(model.report).notes)


def test_an_independent_predictor_needs_no_other_reader(
    splits: Splits, quick_settings: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**quick_settings, "audit": True, "baseline": True, "predictor": "independent"}
    model = train(splits, out=tmp_path / "model", **settings)
    names = [row.name for row in small.reported(model.report).rows]
    assert names[1:5] == [
        "FRESH (attention_gradient)",
        "the same, at 0.05",
        "the same, at 1",
        "random words, same predictor",
    ]
    [verdict] = [item for item in small.reported(model.report).verdicts if item.name == "independent reader"]
    assert (verdict.found, model.reader) == ("holds", None)
    assert not (tmp_path / "model" / "reader").exists()


def test_all_wrong_settings_are_reported_at_once(splits: Splits) -> None:
    wrong: dict[str, Any] = {"ration": 0.1, "train.epoch": 3, "seed": "x", "dropout": 2, "scorer": "atention"}
    with pytest.raises(ConfigError) as caught:
        train(splits, progress=SILENT, **wrong)
    assert str(caught.value).splitlines() == [
        "ration is not a setting. Did you mean ratio?",
        "train.epoch is not a setting. Did you mean train.epochs?",
        "seed must be a whole number, got 'x'.",
        "dropout must be in [0, 1), got 2.0.",
        "atention is not a scorer. Did you mean attention?",
    ]


def test_arguments_override_the_file_and_the_file_overrides_the_corpus(tmp_path: Path) -> None:
    flat = resolve_settings("x.csv", None, None, {"epochs": 3, "ratio": 0.1, "text": "review"})
    assert flat == resolve_settings("x.csv", None, None, {"train.epochs": 3, "ratio": "0.1", "data.text": "review"})
    file = tmp_path / "run.toml"
    file.write_text('scorer = "gradient"\nratio = 0.4\n[train]\nepochs = 12\nseed = 3\n', encoding="utf-8")
    method = method_settings("sst", tmp_path, file, {"train.epochs": "2"})
    assert (method.scorer, method.ratio) == ("gradient", 0.4)
    assert (method.train.epochs, method.train.seed) == (2, 3)
    assert method_settings("sst", tmp_path, file, {"ratio": 0.5}).ratio == 0.5
    file.write_text("[train]\nepoch = 12\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^train\.epoch is not a setting\. Did you mean train\.epochs\?$"):
        resolve_settings("x.csv", None, file, {})


def test_human_rationales_identify_a_run(splits: Splits) -> None:
    run = resolve_settings(splits, None, None, {})
    unmarked = tuple(map(small.unmarked, splits.train))
    one, other = (run_identity(run, given, None) for given in (splits, Splits(unmarked, splits.dev, splits.test)))
    assert {name for name in one if one[name] != other[name]} == {"data"}


BELOW = "Rationales have 89% of the full text's macro-F1. If that is too little, "
MORE_WORDS = "keep more words (`ratio`)."
CAREFUL = "use a better scorer (scorer=integrated_gradients, which takes longer), or " + MORE_WORDS


OWN, FULL = Row("FRESH", 0.8, 0.8, 1.0, own=True), Row("full text", 0.9, 0.9, 1.0)
FRESH = FreshConfig()


@pytest.mark.parametrize(
    ("rows", "method", "scorer", "advice"),
    [
        ((FULL, OWN), FRESH, None, CAREFUL),
        ((FULL, OWN), FreshConfig(scorer="integrated_gradients"), None, MORE_WORDS),
        ((FULL, OWN), FreshConfig(tagging=TaggerConfig(distil=True)), None, MORE_WORDS),
        ((FULL, OWN), FRESH, small.LongWords, MORE_WORDS),
        ((FULL, replace(OWN, macro_f1=0.87)), FRESH, None, None),
        ((FULL, replace(OWN, macro_f1_between=(0.7, 0.9))), FRESH, None, None),  # chance may explain the difference
        ((FULL, OWN), FreshConfig(scorer="random"), None, None),
        ((FULL, OWN), LeiConfig(), None, None),
        ((OWN,), FRESH, None, None),
    ],
)
def test_rationales_far_below_the_full_text_come_with_advice(
    rows: tuple[Row, ...], method: Any, scorer: Any, advice: str | None
) -> None:
    expected = [] if advice is None else [f"{BELOW}{advice}"]
    assert list(_advice(Report(MIN_DOCUMENTS, rows), method, scorer)) == expected
    assert list(_advice(Report(MIN_DOCUMENTS - 1, rows), method, scorer)) == []


def test_a_corpus_sets_the_ratio(splits: Splits, quick_settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sst").mkdir()
    for name in ("train", "dev", "test"):
        rows = [
            {"id": row["id"], "document": row["text"], "label": "1" if row["label"] == "pos" else "0"}
            for row in small.rows(getattr(splits, name))
        ]
        small.write_jsonl(tmp_path / "sst" / f"{name}.jsonl", rows)
    model = train("sst", data_dir=tmp_path, **quick_settings)
    assert model.labels == ("0", "1")
    assert model.settings["ratio"] == 0.2
    assert method_settings("movies", tmp_path, None, {}).ratio == 0.3


@pytest.mark.parametrize(
    ("data", "data_dir", "message"),
    [
        ("sst", None, "sst is the name of a corpus. Give the folder of its files: data_dir=FOLDER."),
        (["sst"], None, "sst is the name of a corpus. Give the folder of its files: data_dir=FOLDER."),
        ("sts", ".", "sts is not a corpus. Did you mean sst?"),
        (["sst", "movies"], ".", "With data_dir, data must be the name of one corpus: sst, agnews, evinf, "),
        ([{"text": "a", "label": "pos"}], None, "1 example of 1 class: too few to split off 1 for dev and 1 for test"),
    ],
)
def test_unusable_data_is_refused(data: Any, data_dir: str | None, message: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        train(data, data_dir=data_dir, progress=SILENT)


def test_a_custom_scorer_is_used_and_named(splits: Splits, quick_settings: dict[str, Any], tmp_path: Path) -> None:
    model = train(splits, scorer=small.LongWords, out=tmp_path / "custom", **quick_settings)
    assert model.explain("one two three four five six").rationale.words == ("three", "four")
    assert model.settings["scorer"] == "LongWords"
    assert "- `scorer`: LongWords\n" in (tmp_path / "custom/README.md").read_text(encoding="utf-8")
    assert small.reported(model.report).rows[1].name == "FRESH (custom)"
    with pytest.raises(TypeError, match=r"^scorer must be a name, or a function or class .*, got Random\.$"):
        train(splits, scorer=Random(), progress=SILENT)  # type: ignore[arg-type]


def test_an_existing_model_is_reported_before_any_work(splits: Splits, full: Rationalizer, tmp_path: Path) -> None:
    full.save_pretrained(tmp_path / "model")
    with pytest.raises(OutputError, match=r"already holds a model.*overwrite=True"):
        train(tmp_path / "does-not-exist.csv", out=tmp_path / "model", progress=SILENT)
