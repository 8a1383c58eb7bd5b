import json
import re
from pathlib import Path

import pytest

import small
from command import Command
from fresh.data.splits import Splits


@pytest.mark.filterwarnings("ignore:The gate has collapsed")  # after one epoch
def test_the_best_settings_of_a_search_can_be_trained_with(
    toy: Splits, encoders: dict[str, Path], command: Command
) -> None:
    data = small.write_csv(Path("reviews.csv"), small.rows(toy.train[:40]))
    options = small.options(encoders["bert"], epochs=1)
    space = ("--method", "bastings", "--trials", "2", "--space", "lagrange_rate=0.01:0.1:log")
    shown = command("search", data, "--out", "search", *space, *options)
    best = r"Best: lagrange_rate [\d.]+\. To train with it: fresh train \.\.\. --config search/best\.toml\n"
    assert re.fullmatch(best, shown.out)
    assert "Trial 2 of 2: lagrange_rate 0.0" in shown.err
    command("train", data, "--out", "model", "--config", "search/best.toml", *options)
    settings = json.loads(Path("model/config.json").read_text(encoding="utf-8"))["settings"]
    assert settings["method"] == "bastings"
    assert 0.01 <= settings["lagrange_rate"] <= 0.1
