from dataclasses import replace
from pathlib import Path

import pytest

import small
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.evaluation.evaluation import Evaluation, evaluate
from fresh.evaluation.html_report import (
    GUARANTEE,
    MAX_DOCUMENTS_SHOWN,
    _select_documents,
    evenly_spaced,
    report_path,
    report_view,
)
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import render
from fresh.reporting.report import Verdict, estimate
from fresh.selection.extractors import FullText


@pytest.fixture(scope="module")
def configured(model: Rationalizer) -> Rationalizer:
    return replace(model, settings={"method": "fresh", "network": {"encoder": "tiny"}})


@pytest.fixture(scope="module")
def found(configured: Rationalizer, toy: Splits) -> Evaluation:
    return evaluate(configured, toy.test)


def test_the_page_shows_what_the_report_says(configured: Rationalizer, found: Evaluation) -> None:
    verdict = Verdict("replay", "holds", "All equal.")
    audited = replace(found, report=replace(found.report, verdicts=(verdict,)))
    view = report_view(configured, audited, "my model", "reviews.csv")
    for shown, row in zip(view.headline, found.report.rows, strict=True):
        assert (shown.name, shown.own) == (row.name, row.own)
        for name in ("macro_f1", "accuracy", "kept"):
            assert getattr(shown, name) == estimate(row, name)
    figures = found.report.figures
    assert figures is not None
    assert view.figures == figures
    assert view.full_text == found.report.rows[0].macro_f1
    [people] = view.agreement
    assert people.name == "FRESH (occlusion)"
    assert list(people.figures) == ["precision", "recall", "token F1", "IoU-F1", "AUPRC"]
    assert list(people.figures.values()) == [item.figure for item in figures.agreement]
    assert view.classes == found.report.rows[1].classes
    assert view.documents == tuple(zip(found.examples, found.explained, strict=True))
    assert view.settings == (("method", "fresh"), ("network.encoder", "tiny"))
    assert view.verdicts == (verdict,)
    assert view.guarantee == GUARANTEE
    assert GUARANTEE.startswith("Given the words shown, nothing else can change the answer. ")
    sure = replace(found, report=replace(found.report, guarantee="It holds."))
    assert report_view(configured, sure, "my model").guarantee == "It holds."
    assert "When less is read" in render(view)


def test_a_report_without_figures_or_people_leaves_them_out(predictor: Predictor, toy: Splits) -> None:
    model = Rationalizer(FullText(), predictor)
    bare = evaluate(model, [small.unmarked(example) for example in toy.test])
    view = report_view(model, bare, "all words")
    assert view.figures is not None
    assert (view.figures.lengths, view.agreement, view.figures.faithfulness) == ((), (), ())
    old = replace(bare, report=replace(bare.report, figures=None))
    view = report_view(model, old, "all words")
    assert view.figures is None
    assert "all words" in render(view)


def test_of_many_documents_some_are_shown_evenly(predictor: Predictor) -> None:
    assert evenly_spaced(3, 5) == [0, 1, 2]
    assert evenly_spaced(10, 5) == [0, 2, 4, 6, 8]
    model = Rationalizer(FullText(), predictor)
    many = [Example(Document.from_text("a film", id=str(number)), "neg") for number in range(MAX_DOCUMENTS_SHOWN + 1)]
    view = report_view(model, evaluate(model, many), "many")
    assert len(view.documents) == MAX_DOCUMENTS_SHOWN
    assert view.n_documents == MAX_DOCUMENTS_SHOWN + 1


def test_wrong_answers_are_shown_before_right_ones(found: Evaluation) -> None:
    right = [Example(item.document, item.prediction.label) for item in found.explained]
    for place in (3, 30):
        right[place] = replace(right[place], label="neg" if right[place].label == "pos" else "pos")
    assert _select_documents(replace(found, examples=right), 4) == [0, 3, 16, 30]


def test_the_page_of_a_model_stands_beside_its_folder(tmp_path: Path) -> None:
    assert report_path(tmp_path / "my.model") == tmp_path / "my.model-report.html"
