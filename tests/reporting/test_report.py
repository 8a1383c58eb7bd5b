import json
from dataclasses import replace

import pytest

from fresh.metrics.bootstrap import Interval, LengthScore, Measure
from fresh.metrics.classification import Bin, ClassScore
from fresh.reporting.report import Figures, Report, Row, Verdict

CLASSES = (
    ClassScore("good", 0.5, 1.0, 2 / 3, 7, (0.25, 0.75), (1.0, 1.0), (0.4, 0.8)),
    ClassScore("schlecht – 差", 0.0, 0.0, 0.0, 3),
)
PLAIN = Report(1234, (Row("full text", 0.98765, 0.5, 1.0), Row("FRESH (attention)", 1 / 3, 0.25, 0.2049, CLASSES)))
NOTED = replace(PLAIN, unread=0.4286, notes=("The gate has collapsed.", "lei: training diverged – 差."))
FIGURES = Figures(
    labels=("good", "schlecht – 差"),
    confusion=((5, 2), (3, 0)),
    calibration=(
        Measure("expected calibration error", Interval(0.1, 0.05, 0.2)),
        Measure("Brier score", Interval(0.3, 0.2, 0.4)),
    ),
    bins=(Bin(0.0, 0.5, 0, None, None), Bin(0.5, 1.0, 10, 0.75, 0.5, (0.25, 0.75))),
    agreement=(Measure("token F1", Interval(0.25, 0.125, 0.5)),),
    n_marked=1200,
    faithfulness=(Measure("sufficiency", Interval(-0.01, -0.125, 0.5)),),
    lengths=(LengthScore(0.05, Interval(0.5, 0.25, 0.75)),),
)
WHOLE = Report(
    10,
    (Row("FRESH", 0.5, 0.25, 0.2, CLASSES, (0.4, 0.6), (0.125, 0.375), (0.19, 0.21), own=True),),
    figures=FIGURES,
    verdicts=(Verdict("replay", "broken", "a|b\nc", ("one",)), Verdict("twins", "holds", "None.")),
)


@pytest.mark.parametrize("report", [PLAIN, NOTED, WHOLE])
def test_report_round_trips_through_json(report: Report) -> None:
    assert Report.from_dict(json.loads(report.to_json())) == report
    assert Report.from_dict(report.to_dict()) == report
    assert "schlecht – 差" in report.to_json()
    assert report.to_json().endswith("}\n")


def test_report_of_an_older_version_is_read() -> None:
    old = PLAIN.to_dict()
    del old["figures"], old["verdicts"], old["guarantee"], old["measured_on"]
    for record in (*old["rows"], *(score for row in old["rows"] for score in row["classes"])):
        for name in [name for name in record if name == "own" or name.endswith("_between")]:
            del record[name]
    bare = (replace(one, precision_between=None, recall_between=None, f1_between=None) for one in CLASSES)
    rows = [PLAIN.rows[0], replace(PLAIN.rows[1], classes=tuple(bare))]
    assert Report.from_dict(old) == replace(PLAIN, rows=tuple(rows))


def test_markdown_of_a_plain_report_with_its_notes() -> None:
    table = (
        "| what is read | macro-F1 | accuracy | words kept |\n"
        "| --- | --- | --- | --- |\n"
        "| full text | .988 | .500 | 100.0% |\n"
        "| FRESH (attention) | .333 | .250 | 20.5% |\n"
    )
    assert PLAIN.to_markdown() == table
    assert NOTED.to_markdown() == (
        f"{table}\nTruncation left 42.9% of the words unread.\n\nThe gate has collapsed.\n"
        "\nlei: training diverged – 差.\n"
    )
    assert PLAIN.all_notes == ()
    assert replace(PLAIN, notes=("Try another seed.",)).all_notes == ("Try another seed.",)


def test_markdown_shows_every_figure_with_its_interval() -> None:
    assert WHOLE.to_markdown() == (
        "| what is read | macro-F1 | accuracy | words kept |\n"
        "| --- | --- | --- | --- |\n"
        "| FRESH | .500 (.400–.600) | .250 (.125–.375) | 20.0% (19.0%–21.0%) |\n"
        "\n| class | precision | recall | F1 | documents |\n| --- | --- | --- | --- | --- |\n"
        "| good | .500 (.250–.750) | 1.000 (1.000–1.000) | .667 (.400–.800) | 7 |\n"
        "| schlecht – 差 | .000 | .000 | .000 | 3 |\n"
        "\n| calibration | |\n| --- | --- |\n"
        "| expected calibration error | .100 (.050–.200) |\n"
        "| Brier score | .300 (.200–.400) |\n"
        "\n| when less is read | |\n| --- | --- |\n"
        "| sufficiency | -.010 (-.125 to .500) |\n"
        "\n| agreement with people (1,200 documents with a human rationale) | |\n| --- | --- |\n"
        "| token F1 | .250 (.125–.500) |\n"
        "\n| words kept, same predictor | macro-F1 |\n| --- | --- |\n"
        "| 5% | .500 (.250–.750) |\n"
        "\n| audit | | |\n| --- | --- | --- |\n"
        "| replay | broken | a\\|b c |\n"
        "| twins | holds | None. |\n"
    )


def test_verdict_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"found must be one of holds, broken, look here, not run, got 'perhaps'"):
        Verdict("replay", "perhaps", "It may hold.")  # type: ignore[arg-type]
