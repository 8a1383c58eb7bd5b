import warnings

import pytest

from fresh.cli.main import main

CPU = ["--device", "cpu"]


@pytest.mark.parametrize("options", [["--ratio", "0.1", "a film"], ["--input", "reviews.csv"]])
def test_a_curve_is_of_one_text(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nowhere", "--curve", *options, *CPU]) == 1
    expected = "fresh explain: --curve goes through all ratios of one TEXT: leave --input and --ratio out.\n"
    assert capsys.readouterr().err == expected


def test_a_warning_is_one_plain_line() -> None:
    main(["explain", "nowhere", "a film", *CPU])
    assert warnings.formatwarning("some text", RuntimeWarning, "file.py", 1) == "Warning: some text\n"
