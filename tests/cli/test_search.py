import json
import re
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.search
import small
from fresh.cli.main import main
from fresh.data.splits import Splits

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs


def test_the_command_searches_and_says_how_to_use_what_it_found(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(small.write_csv(tmp_path / "reviews.csv", small.rows(toy.train[:40])))
    options = [*small.options(encoders["bert"], epochs=1), "--method", "bastings"]
    folder = str(tmp_path / "search")
    command = ["search", data, "--out", folder, "--trials", "2", "--space", "lagrange_rate=0.01:0.1:log", *options]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert re.fullmatch(
        rf"Best: lagrange_rate [\d.]+\. To train with it: fresh train \.\.\. --config {re.escape(folder)}/best\.toml\n",
        shown.out,
    )
    assert "Trial 2 of 2: lagrange_rate 0.0" in shown.err
    others = small.options(encoders["bert"], epochs=1)
    trained = ["train", data, "--out", str(tmp_path / "model"), "--config", f"{folder}/best.toml", *others]
    assert main(trained) == 0
    settings = json.loads((tmp_path / "model/config.json").read_text(encoding="utf-8"))["settings"]
    assert settings["method"] == "bastings"
    assert 0.01 <= settings["lagrange_rate"] <= 0.1


def test_a_search_can_be_interrupted(
    toy: Splits,
    encoders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def train_method(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh.experiments.search, "train_method", train_method)
    data = str(small.write_csv(tmp_path / "reviews.csv", small.rows(toy.train[:40])))
    options = small.options(encoders["bert"], epochs=1)
    assert main(["search", data, "--method=lei", "--out", str(tmp_path / "search"), *options]) == 130
    assert re.search(r"\nInterrupted\. .*repeat the same command\.\n$", capsys.readouterr().err)
