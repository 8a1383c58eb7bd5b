"""An encoder is what it is made of, not where it is."""

import shutil
from pathlib import Path

import pytest

from experiments import Inline, toy_grid
from fresh.data.splits import Splits
from fresh.experiments.run import _run_grid
from fresh.experiments.store import RunStore
from fresh.nn.encoder import identify_encoder


def test_a_name_is_its_own_identity() -> None:
    assert identify_encoder("minilm") == "minilm"
    assert identify_encoder("somebody/something") == "somebody/something"


def test_a_folder_is_told_by_what_is_in_it(encoders: dict[str, Path], tmp_path: Path) -> None:
    one, moved = tmp_path / "one", tmp_path / "elsewhere" / "other"
    shutil.copytree(encoders["bert"], one)
    shutil.copytree(one, moved)
    assert identify_encoder(str(one)) == identify_encoder(str(moved)) != identify_encoder(str(encoders["roberta"]))
    for name in ("README.md", "vocab.txt"):
        (one / name).write_text("What this is.")
    assert identify_encoder(str(one)) == identify_encoder(str(moved))
    (one / "tokenizer.json").rename(one / "tokenizer.old")
    assert identify_encoder(str(one)) != identify_encoder(str(moved))
    before = identify_encoder(str(one))
    (one / "vocab.txt").write_text("Without the tokenizer's own file, these are the words.")
    assert identify_encoder(str(one)) != before
    for name in ("config.json", "model.safetensors"):
        before = identify_encoder(str(one))
        with (one / name).open("ab") as file:
            file.write(b" ")
        assert identify_encoder(str(one)) != before
    before = identify_encoder(str(one))
    (one / "1_Pooling").mkdir()
    (one / "1_Pooling" / "config.json").write_text("{}")
    assert identify_encoder(str(one)) != before


def test_an_encoder_that_changed_is_trained_anew_and_one_that_moved_is_not(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(encoders["bert"], tmp_path / "mine")
    out = tmp_path / "runs"

    def keys(encoder: str) -> set[str]:
        path = toy_grid(tmp_path, toy, Path(encoder), {"scorer": "attention"})
        _run_grid(path, out, engine=Inline(out), documents=12)
        return RunStore(out).planned("grid")

    first = keys("mine")
    (tmp_path / "mine").rename(tmp_path / "moved")
    assert keys("moved") == first
    shutil.rmtree(tmp_path / "moved")
    shutil.copytree(encoders["distilbert"], tmp_path / "moved")
    assert not keys("moved") & first
    assert len(list((out / "runs").iterdir())) == 2
    assert len(list((out / "shared").glob("support-*"))) == 2
