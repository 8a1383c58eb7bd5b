"""The ways of benchmarks/recipe.py, on a tiny encoder."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.methods.config import FreshConfig
from fresh.training.loop import RunContext
from small import some

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("recipe")


def test_every_way_can_be_tried(recipe: ModuleType, toy: Splits, encoders: dict[str, Path]) -> None:
    splits = some(toy)
    given = {"encoder": str(encoders["bert"]), "epochs": 1, "layers": "all", "steps": 2, "device": "cpu"}
    config = from_mapping(FreshConfig, given)
    support = SupportModel.train(splits.train, splits.dev, config, RunContext())
    named = recipe.scorers(config, len(support.classifier.encoder.layers))
    wanted = [*named, *recipe.MADE]
    found = {
        name: (masks, seconds) for name, masks, seconds in recipe.candidates(named, wanted, support, splits, config)
    }
    assert list(found) == wanted
    for masks, _ in found.values():
        assert [len(masks[part]) for part in recipe.PARTS] == [len(splits.train), len(splits.dev), len(splits.test)]
    seconds = {name: seconds for name, (_, seconds) in found.items()}
    assert seconds[f"{recipe.FIRST}, spread"] == seconds[recipe.FIRST]
    assert seconds["the surer of both"] == seconds[recipe.FIRST] + seconds[recipe.SECOND]
