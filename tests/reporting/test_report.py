import json
from dataclasses import replace

from fresh.metrics.classification import Bin, ClassScore
from fresh.metrics.estimate import Interval, LengthScore, Measure
from fresh.reporting.report import Figures, Report, Row, Verdict

CLASSES = (
    ClassScore("good", 0.5, 1.0, 2 / 3, 7, (0.25, 0.75), (1.0, 1.0), (0.4, 0.8)),
    ClassScore("schlecht – 差", 0.0, 0.0, 0.0, 3),
)
REPORT = Report(1234, (Row("full text", 0.98765, 0.5, 1.0), Row("FRESH (attention)", 1 / 3, 0.25, 0.2049, CLASSES)))


def test_a_report_comes_back_from_json() -> None:
    assert Report.from_dict(json.loads(REPORT.to_json())) == REPORT
    assert Report.from_dict(REPORT.to_dict()) == REPORT


def test_json_is_for_people_too() -> None:
    assert "schlecht – 差" in REPORT.to_json()
    assert REPORT.to_json().endswith("}\n")


def test_markdown_is_a_table() -> None:
    assert REPORT.to_markdown() == (
        "| what is read | macro-F1 | accuracy | words kept |\n"
        "| --- | --- | --- | --- |\n"
        "| full text | .988 | .500 | 100.0% |\n"
        "| FRESH (attention) | .333 | .250 | 20.5% |\n"
    )


NOTED = replace(REPORT, unread=0.4286, notes=("The gate has collapsed.", "lei: training diverged – 差."))


def test_what_truncating_left_unread_and_notes_come_back_from_json() -> None:
    assert Report.from_dict(json.loads(NOTED.to_json())) == NOTED
    assert json.loads(NOTED.to_json())["unread"] == 0.4286
    assert json.loads(NOTED.to_json())["notes"] == list(NOTED.notes)


def test_what_was_left_unread_and_notes_stand_below_the_table() -> None:
    assert NOTED.to_markdown() == (
        REPORT.to_markdown() + "\nTruncating left 42.9% of the words unread.\n"
        "\nThe gate has collapsed.\n"
        "\nlei: training diverged – 差.\n"
    )


def test_there_is_nothing_to_remark_where_all_went_well() -> None:
    assert REPORT.remarks == ()


def test_only_what_is_so_is_remarked() -> None:
    assert replace(REPORT, unread=0.5).remarks == ("Truncating left 50.0% of the words unread.",)
    assert replace(REPORT, notes=("Try another seed.",)).remarks == ("Try another seed.",)


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
VERDICTS = (Verdict("replay", "broken", "a|b\nc", ("one",)), Verdict("twins", "holds", "None."))
WHOLE = Report(
    10,
    (Row("FRESH", 0.5, 0.25, 0.2, CLASSES, (0.4, 0.6), (0.125, 0.375), (0.19, 0.21), own=True),),
    figures=FIGURES,
    verdicts=VERDICTS,
)


def test_figures_and_intervals_come_back_from_json() -> None:
    assert Report.from_dict(json.loads(WHOLE.to_json())) == WHOLE


def test_a_report_of_an_older_version_has_neither() -> None:
    old = REPORT.to_dict()
    del old["figures"], old["verdicts"]
    for row in old["rows"]:
        for name in ("macro_f1_between", "accuracy_between", "kept_between", "own"):
            del row[name]
        for score in row["classes"]:
            for name in ("precision_between", "recall_between", "f1_between"):
                del score[name]
    bare = [replace(row, classes=tuple(map(without_intervals, row.classes))) for row in REPORT.rows]
    assert Report.from_dict(old) == replace(REPORT, rows=tuple(bare))


def without_intervals(score: ClassScore) -> ClassScore:
    return replace(score, precision_between=None, recall_between=None, f1_between=None)


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
        "\n| agreement with people (1,200 documents that people marked) | |\n| --- | --- |\n"
        "| token F1 | .250 (.125–.500) |\n"
        "\n| words kept, same predictor | macro-F1 |\n| --- | --- |\n"
        "| 5% | .500 (.250–.750) |\n"
        "\n| audit | | |\n| --- | --- | --- |\n"
        "| replay | broken | a\\|b c |\n"
        "| twins | holds | None. |\n"
    )
