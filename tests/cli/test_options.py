import re
from pathlib import Path

import pytest

import fresh.cli.main
import small
from fresh.cli.main import main


def test_unknown_options_get_their_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["explain", "model", "a film", "--scored", "--ouput=x"])
    assert capsys.readouterr().err == (
        "fresh explain: --scored is not an option. Did you mean --scores?\n"
        "--ouput is not an option. Did you mean --output?\n"
        "See: fresh explain --help\n"
    )


def test_what_was_not_expected_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["demo", "film", "reviews"])
    assert capsys.readouterr().err == "fresh demo: film reviews was not expected.\nSee: fresh demo --help\n"


def test_several_texts_to_explain_are_refused_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["explain", "my-model", "a", "good", "film"])
    assert capsys.readouterr().err == (
        "fresh explain: good film was not expected. Give one TEXT, in quotes, or a file with --input.\n"
        "See: fresh explain --help\n"
    )


def test_an_interrupt_while_loading_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh.cli.main, "_build_parser", interrupted)
    assert main(["train", "x.csv", "--out", "y"]) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"


def test_a_report_needs_a_folder_before_the_work_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "none" / "report.json"
    assert main(["evaluate", "model", "data.csv", "--json", str(target)]) == 1
    reason = f"There is no folder {tmp_path / 'none'} to write to. Create it first."
    assert capsys.readouterr().err == f"fresh evaluate: {reason}\n"


def test_training_that_diverges_says_so(
    encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": f"{word} film", "label": word} for word in ("good", "bad")] * 12
    file = small.write_csv(tmp_path / "in.csv", rows)
    options = small.options(encoders["bert"], learning_rate=1e30)
    assert main(["train", str(file), "--out", str(tmp_path / "model"), *options]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"fresh train: support model: training diverged in step \d of epoch 1, its loss or gradients are no longer "
        r"numbers\. Lower the learning_rate\.",
        last,
    )


def test_an_output_needs_a_folder_before_the_work_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "none" / "out.jsonl"
    assert main(["explain", "model", "--input", "in.csv", "--output", str(target)]) == 1
    reason = f"There is no folder {tmp_path / 'none'} to write to. Create it first."
    assert capsys.readouterr().err == f"fresh explain: {reason}\n"
