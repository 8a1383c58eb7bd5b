"""The same settings, data and seed give the same model folder, byte by byte, whatever the method."""

from pathlib import Path

import pytest

import small
from experiments import write_toy
from fresh.attribution.registry import SCORERS
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.methods.registry import METHODS
from fresh.persistence import read_files

WAYS = {
    **{name: ("--method", name) for name in METHODS if name != "fresh"},
    **{name: ("--scorer", name) for name in SCORERS},
    "tagger": ("--tagger", "--crf"),
    "range": ("--ratio", "0.1:0.5"),
    "contiguous": ("--discretizer", "contiguous"),
    "chunk": ("--long", "chunk", "--max-pieces", "16"),
    "audited": ("--audit",),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs
@pytest.mark.parametrize("way", WAYS)
def test_equal_trainings_have_equal_bytes(way: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    data = str(write_toy(tmp_path / "toy", toy, 32, 8))
    settings = [*small.options(encoders["bert"], dropout=0.3, seed=5), *WAYS[way]]
    for name in ("first", "second"):
        assert main(["train", data, "--out", str(tmp_path / name / "model"), *settings]) == 0
    first, second = (read_files(tmp_path / name / "model") for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    other = [*settings, "--seed", "6"]
    assert main(["train", data, "--out", str(tmp_path / "other" / "model"), *other]) == 0
    assert (
        read_files(tmp_path / "other" / "model")["predictor/model.safetensors"] != first["predictor/model.safetensors"]
    )
