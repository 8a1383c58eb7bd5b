import io
import json
from dataclasses import replace

import numpy as np
from rich.console import Console

from fresh.document import Document, Explanation, Mask, Saliency
from fresh.rationale import Prediction
from fresh.reporting.console import _highlighted, show_curve, show_explanation, show_report, to_record
from fresh.reporting.report import Report, Row
from fresh.selection.extractors import Curve

TEXT = "A [bold] film:\n  “très” lovely 😀, but long."


def explanation(scores: bool = True) -> Explanation:
    """Keep the third and the last three but one words."""
    document = Document.from_text(TEXT, id="r-1")
    kept = np.array([word in ("bold", "très", "lovely", "😀") for word in document.words])
    saliency = Saliency(kept * 0.25, "good", "r-1") if scores else None
    return Explanation(
        document, Mask(kept), document.cut(Mask(kept)), Prediction("good", {"bad": 0.125, "good": 0.875}), saliency
    )


def printed(terminal: bool, gold: str | None = None, width: int = 80) -> str:
    """Show the explanation on a console of our own."""
    console = Console(file=io.StringIO(), width=width, color_system="standard" if terminal else None)
    show_explanation(console, explanation(), gold)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_plain_output_puts_brackets_around_what_was_read() -> None:
    n_words = len(explanation().document.words)
    assert printed(terminal=False) == (
        f"good (probability 0.88), from 4 of {n_words} words:\nA [[bold]] film:\n  “[très]” [lovely 😀], but long.\n\n"
    )


def test_a_beginning_that_stands_for_a_long_text_is_told() -> None:
    whole = explanation()
    assert whole.saliency is not None
    console = Console(file=io.StringIO(), width=120, color_system=None)
    show_explanation(console, replace(whole, saliency=replace(whole.saliency, n_read=7)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert f", from 4 of {len(whole.mask)} words, of which only the first 7 were looked at:\n" in shown


def test_a_long_text_is_not_cut_into_lines() -> None:
    assert "“[très]” [lovely 😀], but long." in printed(terminal=False, width=12)


def test_a_terminal_underlines_what_was_read() -> None:
    shown = printed(terminal=True)
    assert "\x1b[1;4;32mlovely 😀\x1b[0m" in shown
    assert "[lovely" not in shown


def test_a_terminal_that_cannot_underline_gets_brackets() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "dumb"})
    show_explanation(console, explanation())
    assert "[lovely 😀]" in console.file.getvalue()  # type: ignore[attr-defined]


def test_an_answer_is_compared_with_the_gold_label() -> None:
    assert printed(terminal=False, gold="good").startswith("good (probability 0.88) right, from")
    assert printed(terminal=False, gold="bad").startswith("good (probability 0.88) wrong: it is bad, from")


def test_highlighting_changes_no_character() -> None:
    assert _highlighted(explanation(), plain=False).plain == TEXT


def test_a_record_is_plain_and_its_spans_are_characters() -> None:
    record = to_record(explanation())
    assert json.loads(json.dumps(record)) == record
    assert list(record) == ["id", "label", "probability", "probabilities", "rationale", "ratio"]
    assert (record["id"], record["label"], record["probability"]) == ("r-1", "good", 0.875)
    assert record["probabilities"] == {"bad": 0.125, "good": 0.875}
    assert [span["text"] for span in record["rationale"]] == ["bold", "très", "lovely 😀"]
    assert all(TEXT[span["start"] : span["end"]] == span["text"] for span in record["rationale"])
    assert record["ratio"] == 4 / len(explanation().document.words)


def test_a_record_has_scores_when_asked() -> None:
    record = to_record(explanation(), scores=True)
    assert record["words"] == list(explanation().document.words)
    assert record["scores"] == [0.25 * (word in ("bold", "très", "lovely", "😀")) for word in record["words"]]


def test_a_record_without_scores_has_none() -> None:
    assert "scores" not in to_record(explanation(scores=False), scores=True)


def test_a_report_is_a_table() -> None:
    console = Console(file=io.StringIO(), width=80)
    show_report(console, Report(1234, (Row("FRESH (attention)", 0.9004, 0.85, 0.2049),)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1,234 test documents" in shown
    assert "FRESH (attention)       .900       .850   20.5%" in shown


def test_a_report_is_followed_by_what_one_should_know() -> None:
    console = Console(file=io.StringIO(), width=80)
    notes = ("The gate has collapsed [really].",)
    show_report(console, Report(1, (Row("Lei et al.", 0.9, 0.85, 0.2),), 0.125, notes))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.startswith("1 test document ")
    assert shown.endswith("Truncating left 12.5% of the words unread.\nThe gate has collapsed [really].\n")


def test_a_curve_is_a_table_and_the_shortest_rationale_that_is_enough() -> None:
    document = Document.from_text("a very good film")
    points = [
        Explanation(
            document, Mask(np.array(kept)), document.cut(Mask(np.array(kept))), Prediction(label, {label: probability})
        )
        for kept, label, probability in (
            ([False, True, False, False], "[b]bad", 0.625),
            ([False, True, True, False], "good", 0.75),
            ([False, True, True, True], "good", 1.0),
        )
    ]
    console = Console(file=io.StringIO(), width=80)
    show_curve(console, Curve(tuple(points)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for line in (
        "Answers to growing rationales",
        "│     1 │   25% │ [b]bad │        0.62 │",
        "│     2 │   50% │ good   │        0.75 │",
        "│     3 │   75% │ good   │        1.00 │",
    ):
        assert line in shown
    assert shown.endswith(
        "From these words on, the answer stays the same:\n"
        "good (probability 0.75), from 2 of 4 words:\na [very good] film\n\n"
    )


def test_no_text_can_steer_the_terminal() -> None:
    document = Document.from_text("\x1b[31mred\x07 film", id="x")
    prediction = Prediction("pos", {"pos": 1.0})
    shown = _highlighted(
        Explanation(document, Mask.full(len(document.words)), document.cut(Mask.full(len(document.words))), prediction),
        plain=True,
    ).plain
    assert "\x1b" not in shown
    assert "\u241b" in shown


def test_no_label_can_steer_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    label = "\x1b[31mpos\x9b"
    answer = Explanation(
        Document.from_text("film"),
        Mask.full(1),
        Document.from_text("film").cut(Mask.full(1)),
        Prediction(label, {label: 1.0}),
    )
    show_explanation(console, answer, gold="\x07")
    assert console.file.getvalue().startswith("\u241b[31mpos\ufffd (probability 1.00) wrong: it is \u2407")  # type: ignore[attr-defined]


def test_a_label_in_the_name_of_a_row_cannot_steer_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    report = Report(1, (Row("majority class (\x1b]0;owned\x07a|b)", 0.9, 0.85, 0.0),))
    show_report(console, report)
    assert "\x1b" not in console.file.getvalue()  # type: ignore[attr-defined]
    assert "a\\|b" in report.to_markdown()
    assert "\x1b" not in report.to_markdown()
