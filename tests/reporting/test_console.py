import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fresh.document import Document, Explanation, Mask, Saliency
from fresh.metrics.bootstrap import Interval, Measure
from fresh.rationale import Prediction
from fresh.reporting.console import show_curve, show_explanation, show_report, to_record
from fresh.reporting.report import Figures, Report, Row, Verdict
from fresh.selection.extractors import Curve
from pages import BINS, CALIBRATION

TEXT = "A [bold] film:\n  “très” lovely 😀, but long."
READ = ("bold", "très", "lovely", "😀")


def explain(document: Document, kept: Sequence[bool], probabilities: dict[str, float]) -> Explanation:
    mask, label = Mask(np.array(kept)), max(probabilities, key=lambda name: probabilities[name])
    return Explanation(document, mask, document.cut(mask), Prediction(label, probabilities))


DOCUMENT = Document.from_text(TEXT, id="r-1")
KEPT = [word in READ for word in DOCUMENT.words]
N_WORDS = len(DOCUMENT.words)
SALIENCY = Saliency(np.array(KEPT) * 0.25, "good", "r-1")
EXPLANATION = replace(explain(DOCUMENT, KEPT, {"bad": 0.125, "good": 0.875}), saliency=SALIENCY)


def printed(show: Callable[..., None], *arguments: Any, **console: Any) -> str:
    """Return what a function prints on a console of our own."""
    file = io.StringIO()
    show(Console(file=file, **{"width": 80, "color_system": None, **console}), *arguments)
    return file.getvalue()


# Explanations


def test_plain_output_puts_brackets_around_what_was_read() -> None:
    assert printed(show_explanation, EXPLANATION) == (
        f"good (probability 0.88), from 4 of {N_WORDS} words:\nA [[bold]] film:\n  “[très]” [lovely 😀], but long.\n\n"
    )
    assert "“[très]” [lovely 😀], but long." in printed(show_explanation, EXPLANATION, width=12)  # not wrapped


def test_truncated_text_says_how_many_words_were_candidates() -> None:
    truncated = replace(EXPLANATION, saliency=replace(SALIENCY, n_read=7))
    shown = printed(show_explanation, truncated, width=120)
    assert f", from 4 of {N_WORDS} words, selected among the first 7:\n" in shown


def test_terminal_underlines_what_was_read_where_it_can() -> None:
    shown = printed(show_explanation, EXPLANATION, color_system="standard")
    assert "\x1b[1;4;32mlovely 😀\x1b[0m" in shown
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).endswith(f" words:\n{TEXT}\n\n")
    dumb = {"color_system": "auto", "force_terminal": True, "_environ": {"TERM": "dumb"}}
    assert "[lovely 😀]" in printed(show_explanation, EXPLANATION, **dumb)


@pytest.mark.parametrize(("gold", "says"), [("good", "right"), ("bad", "wrong: it is bad")])
def test_prediction_is_compared_with_the_gold_label(gold: str, says: str) -> None:
    assert printed(show_explanation, EXPLANATION, gold).startswith(f"good (probability 0.88) {says}, from")


def test_curve_shows_the_shortest_rationale_that_is_enough() -> None:
    document = Document.from_text("a very good film")
    points = (
        explain(document, [False, True, False, False], {"[b]bad": 0.625}),
        explain(document, [False, True, True, False], {"good": 0.75}),
        explain(document, [False, True, True, True], {"good": 1.0}),
    )
    shown = printed(show_curve, Curve(points))
    assert [" ".join(line.split()) for line in shown.splitlines()[4:7]] == [
        "│ 1 │ 25% │ [b]bad │ 0.62 │",
        "│ 2 │ 50% │ good │ 0.75 │",
        "│ 3 │ 75% │ good │ 1.00 │",
    ]
    assert shown.endswith("good (probability 0.75), from 2 of 4 words:\na [very good] film\n\n")


def test_record_is_plain_and_its_spans_are_characters() -> None:
    record = to_record(EXPLANATION)
    assert json.loads(json.dumps(record)) == record
    assert list(record) == ["id", "label", "probability", "probabilities", "rationale", "ratio"]
    assert (record["id"], record["label"], record["probability"]) == ("r-1", "good", 0.875)
    assert record["probabilities"] == {"bad": 0.125, "good": 0.875}
    assert [span["text"] for span in record["rationale"]] == ["bold", "très", "lovely 😀"]
    assert all(TEXT[span["start"] : span["end"]] == span["text"] for span in record["rationale"])
    assert record["ratio"] == 4 / N_WORDS
    scores = [0.25 * (word in READ) for word in DOCUMENT.words]
    assert to_record(EXPLANATION, scores=True) == {**record, "words": list(DOCUMENT.words), "scores": scores}
    assert "scores" not in to_record(replace(EXPLANATION, saliency=None), scores=True)


# Reports


def test_report_shows_scores_figures_verdicts_and_notes() -> None:
    figures = Figures(
        ("a",), ((1,),), CALIBRATION, BINS, (Measure("token F1", Interval(0.25, 0.125, 0.5)),), n_marked=1200
    )
    verdicts = (Verdict("replay", "broken", "One differs."), Verdict("invariance", "not run", "No documents."))
    report = Report(
        1234, (Row("FRESH (attention)", 0.9004, 0.85, 0.2049),), 0.125, ("It [really] collapsed.",), figures, verdicts
    )
    shown = printed(show_report, report)
    assert "1,234 test documents" in shown
    assert "FRESH (attention)       .900       .850   20.5%" in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in (
        "expected calibration error .041 (.023–.059)",
        "token F1 .250 (.125–.500)",
        "Agreement with people: over 1,200 documents with a human rationale.",
        "replay broken One differs.",
        "invariance not run No documents.",
    ):
        assert line in lines
    assert shown.endswith("Truncation left 12.5% of the words unread.\nIt [really] collapsed.\n")
    assert printed(show_report, replace(report, n_documents=1)).startswith("1 test document ")


# Hostile texts


def test_no_text_or_label_can_steer_the_terminal() -> None:
    hostile = explain(Document.from_text("\x1b[31mred\x07 film"), [True] * 3, {"\x1b[31mpos\x9b": 1.0})
    shown = printed(show_explanation, hostile, "\x07")
    assert shown.startswith("\u241b[31mpos\ufffd (probability 1.00) wrong: it is \u2407")
    assert not set("\x1b\x07\x9b") & set(shown)
    report = Report(1, (Row("majority class (\x1b]0;owned\x07a|b)", 0.9, 0.85, 0.0),))
    assert "\x1b" not in printed(show_report, report) + report.to_markdown()
    assert "a\\|b" in report.to_markdown()
