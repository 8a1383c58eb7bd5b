import json
from dataclasses import replace

from fresh.metrics import ClassScore
from fresh.report import Report, Row

CLASSES = (ClassScore("good", 0.5, 1.0, 2 / 3, 7), ClassScore("schlecht – 差", 0.0, 0.0, 0.0, 3))
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
        "| full text | 0.988 | 0.500 | 100.0% |\n"
        "| FRESH (attention) | 0.333 | 0.250 | 20.5% |\n"
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
