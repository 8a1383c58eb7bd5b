from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import small
from fresh.attribution.support_model import SupportModel
from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import Splits
from fresh.document import Mask
from fresh.evaluation.compare import compare
from fresh.evaluation.evaluate import evaluate
from fresh.evaluation.warnings import data_warnings
from fresh.persistence import FINGERPRINTS
from fresh.pipeline import train
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import show_report
from fresh.selection.discretizers import TopK

TRAINED_ON = (
    "{} of {} documents were in the data that the model was trained with (train or dev), so the figures are too good. "
    "Measure on documents that are new to it."
)
ONE_CLASS = (
    "All documents have the label 'pos': macro-F1 counts classes of which there are none as 0, and nothing here tells "
    "how often other labels are given wrongly. Measure on documents of all classes."
)
FEW = "{} few: with less than 30, one answer more or less moves every figure, and intervals are rough."


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor, toy: Splits) -> Rationalizer:
    made = small.rationalizer(support, predictor, TopK(0.2), "attention")
    return replace(made, fingerprints=TrainingFingerprints.of(example.document for example in toy.train))


def test_new_documents_of_all_classes_are_fine(model: Rationalizer, toy: Splits) -> None:
    new = [
        example for example in toy.test if not model.fingerprints or not model.fingerprints.count([example.document])
    ]
    assert len(new) >= 30
    assert data_warnings(model, new) == ()
    assert data_warnings(replace(model, fingerprints=None), toy.train) == ()


def test_documents_that_were_trained_on_are_counted(model: Rationalizer, toy: Splits) -> None:
    assert data_warnings(model, toy.train) == (TRAINED_ON.format(len(toy.train), len(toy.train)),)


def test_few_documents_of_one_class(model: Rationalizer, toy: Splits) -> None:
    known = replace(model, fingerprints=None)
    good = [example for example in toy.test if example.label == "pos"]
    assert data_warnings(known, good[:12]) == (ONE_CLASS, FEW.format("12 documents are"))
    assert data_warnings(known, good[:1]) == (ONE_CLASS, FEW.format("1 document is"))


def test_report_and_terminal_say_so(model: Rationalizer, toy: Splits) -> None:
    report = evaluate(model, toy.train[:4])
    told = (TRAINED_ON.format(4, 4), FEW.format("4 documents are"))
    assert report.notes == told
    assert all(line in report.to_markdown() for line in told)
    shown = StringIO()
    show_report(Console(file=shown, width=400), report)
    assert all(line in shown.getvalue() for line in told)


def test_a_trained_model_knows_its_texts_after_it_was_saved(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    splits = small.some(toy)
    train(splits, out=tmp_path / "model", baseline=False, **small.run_settings(encoders["bert"], epochs=1))
    again = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    assert again.fingerprints is not None
    assert again.fingerprints.count(example.document for example in (*splits.train, *splits.dev)) == 64
    assert FINGERPRINTS in small.digests(tmp_path / "model")


def test_empty_rationales_beside_others_are_warned_of(model: Rationalizer, toy: Splits) -> None:
    new = [
        example for example in toy.test if not model.fingerprints or not model.fingerprints.count([example.document])
    ]
    nothing = Mask.from_spans([], len(new[0].document.words))
    told = (
        f"1 of {len(new)} human rationales are empty: all that the model keeps there counts against it. Where nobody "
        "looked for words, give no rationale (null) in place of an empty one.",
    )
    assert data_warnings(model, [replace(new[0], human=nothing), *new[1:]]) == told
    assert data_warnings(model, [replace(new[0], human=None), *new[1:]]) == ()


def test_a_comparison_names_models_that_know_the_documents(model: Rationalizer, toy: Splits) -> None:
    models = {"knows": model, "does not": replace(model, fingerprints=None)}
    table = compare(models, toy.train[:40])
    assert table.remarks[0] == "knows: " + TRAINED_ON.format(40, 40)
    assert table.to_dict()["cautions"] == [table.remarks[0]]
    assert not any("does not: " in remark for remark in table.remarks)
