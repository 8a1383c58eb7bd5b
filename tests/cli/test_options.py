import re
import warnings
from pathlib import Path

import pytest

import fresh.cli.main
import small
from fresh.cli.main import main
from fresh.cli.options import with_flags


def test_an_interrupt_while_loading_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh.cli.main, "_build_parser", interrupted)
    assert main(["train", "x.csv", "--out", "y"]) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"


def test_training_that_diverges_says_so(
    encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": f"{word} film", "label": word} for word in ("good", "bad")] * 12
    file = small.write_csv(tmp_path / "in.csv", rows)
    options = small.options(encoders["bert"], learning_rate=1e30)
    assert main(["train", str(file), "--out", str(tmp_path / "model"), *options]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert re.match(r"fresh train: support model: training diverged in step \d of epoch 1.*learning.rate", last)


def test_a_warning_is_one_plain_line() -> None:
    main(["explain", "nowhere", "a film", "--device", "cpu"])
    assert warnings.formatwarning("some text", RuntimeWarning, "file.py", 1) == "Warning: some text\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Name it with `text`, or set skip_bad=True.", "Name it with --text, or set --skip-bad."),
        ("ratio must be in (0, 1], got 20.", "--ratio must be in (0, 1], got 20."),
        ("a\nratio must be 1 with long=chunk.", "a\n--ratio must be 1 with --long chunk."),
        ("leave the column out with query=''.", "leave the column out with --query ''."),
        ("such as space='rate=1e-5:1:log'.", "such as --space rate=1e-5:1:log."),
        ("choose audit=False or ratio=0.05:0.5.", "choose --no-audit or --ratio 0.05:0.5."),
        ("No `other`, no other=1, no /text=1/x, no text=a/b, no 'ratio=3'.",) * 2,
        ("The text must be read: text=mine is a folder.", "The text must be read: text=mine is a folder."),
    ],
)
def test_parameters_in_messages_become_flags(message: str, expected: str) -> None:
    names = ("text", "skip_bad", "ratio", "long", "query", "space", "audit")
    flags = {name: [f"--{name.replace('_', '-')}"] for name in names}
    assert with_flags(message, flags, ["text=mine"]) == expected
