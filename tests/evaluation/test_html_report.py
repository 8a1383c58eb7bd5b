from dataclasses import replace
from pathlib import Path

import pytest

import small
from fresh._io import atomic_write, write_text
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.evaluation.evaluation import Evaluation, evaluate
from fresh.evaluation.html_report import GUARANTEE, SHOWN, UNAUDITED, _choose, _spread, report_view
from fresh.metrics.estimate import Estimate
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import render
from fresh.reporting.report import Verdict
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    model = small.rationalizer(support, predictor, TopK(0.2))
    return replace(model, settings={"method": "fresh", "network": {"encoder": "tiny"}})


@pytest.fixture(scope="module")
def found(model: Rationalizer, toy: Splits) -> Evaluation:
    return evaluate(model, toy.test)


def test_the_page_shows_what_the_report_says(model: Rationalizer, found: Evaluation) -> None:
    verdict = Verdict("replay", "holds", "All equal.")
    audited = replace(found, report=replace(found.report, verdicts=(verdict,)))
    view = report_view(model, audited, "my model", "reviews.csv")
    assert [row.name for row in view.headline] == [row.name for row in found.report.rows]
    assert [row.own for row in view.headline] == [row.own for row in found.report.rows]
    for shown, row in zip(view.headline, found.report.rows, strict=True):
        assert shown.macro_f1 == Estimate(row.macro_f1, *(row.macro_f1_between or ()))
        assert shown.accuracy == Estimate(row.accuracy, *(row.accuracy_between or ()))
        assert shown.kept == Estimate(row.kept, *(row.kept_between or ()))
    figures = found.report.figures
    assert figures is not None
    assert view.confusion is not None
    assert view.confusion.counts == figures.confusion
    assert sum(item.count for item in view.bins) == 32
    assert view.calibration == figures.calibration
    assert view.curve is not None
    assert view.curve.full_text == found.report.rows[0].macro_f1
    assert [point.ratio for point in view.curve.points] == [0.01, 0.05, 0.1, 0.2, 0.5]
    assert view.less_read == figures.faithfulness
    [people] = view.agreement
    assert people.name == "FRESH (occlusion)"
    assert [people.precision, people.recall, people.token_f1, people.iou_f1, people.auprc] == [
        item.figure for item in figures.agreement
    ]
    assert view.classes == found.report.rows[1].classes
    assert view.settings == (("method", "fresh"), ("network.encoder", "tiny"))
    assert view.verdicts == (verdict,)
    assert view.guarantee == f"{GUARANTEE}\n\n{UNAUDITED}"
    sure = replace(found, report=replace(found.report, guarantee="It holds."))
    assert report_view(model, sure, "my model").guarantee == "It holds."
    assert "When less is read" in render(view)


def test_every_document_is_shown_as_it_was_read(model: Rationalizer, found: Evaluation, toy: Splits) -> None:
    view = report_view(model, found, "my model")
    for shown, example, explanation in zip(view.documents, toy.test, found.explained, strict=True):
        assert (shown.id, shown.text, shown.gold) == (example.document.id, example.document.text, example.label)
        assert shown.kept == explanation.mask.spans
        assert shown.human == (example.human.spans if example.human else None)
        assert shown.probabilities == explanation.prediction.probabilities


def test_a_report_without_figures_or_people_leaves_them_out(predictor: Predictor, toy: Splits) -> None:
    model = Rationalizer(FullText(), predictor)
    bare = evaluate(model, [small.unmarked(example) for example in toy.test])
    view = report_view(model, bare, "all words")
    assert (view.curve, view.agreement, view.less_read) == (None, (), ())
    old = replace(bare, report=replace(bare.report, figures=None))
    view = report_view(model, old, "all words")
    assert (view.confusion, view.bins, view.calibration) == (None, (), ())
    assert "all words" in render(view)


def test_of_many_documents_some_are_shown_evenly(predictor: Predictor) -> None:
    assert _spread(3, 5) == [0, 1, 2]
    assert _spread(10, 5) == [0, 2, 4, 6, 8]
    model = Rationalizer(FullText(), predictor)
    many = [Example(Document.from_text("a film", id=str(number)), "neg") for number in range(SHOWN + 1)]
    view = report_view(model, evaluate(model, many), "many")
    assert len(view.documents) == SHOWN
    assert view.n_documents == SHOWN + 1


def test_wrong_answers_are_shown_before_right_ones(found: Evaluation) -> None:
    flipped = [
        replace(example, label="pos" if example.label == "neg" else "neg") if number in (3, 30) else example
        for number, example in enumerate(found.examples)
    ]
    wrong = [
        number
        for number, (example, item) in enumerate(zip(flipped, found.explained, strict=True))
        if example.label != item.prediction.label
    ]
    chosen = _choose(replace(found, examples=flipped), len(wrong) + 2)
    assert {3, 30} & set(wrong)
    assert set(wrong) <= set(chosen)
    assert len(chosen) == len(wrong) + 2
    assert chosen == sorted(chosen)


def break_off(path: Path) -> None:
    with atomic_write(path) as place:
        place.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt


def test_a_file_is_written_in_one_move(tmp_path: Path) -> None:
    write_text(tmp_path / "a.html", "é")
    assert (tmp_path / "a.html").read_bytes() == "é".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    with pytest.raises(KeyboardInterrupt):
        break_off(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes() == "é".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
