"""An encoder of the hub is read, recorded and read again at one commit; here the hub is a cache without a network."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fresh.pipeline
import small
from fresh.data.splits import Splits
from fresh.errors import ConfigError, EncoderError
from fresh.nn.encoder import _commit_of, load_encoder, pin_revision
from fresh.pipeline import partial_folder, train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from tiny import write_pooling
from weights import rewrite, with_number

NAME = "somebody/tiny-bert"
OLD, NEW = "0" * 39 + "1", "f" * 40
KEY = "encoder.layer.0.output.dense.bias"


@pytest.fixture
def hub(encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with two commits of one encoder, of which `main` is the older one."""
    place = tmp_path / "hf" / "hub" / "models--somebody--tiny-bert"
    for commit, number in ((OLD, 1.0), (NEW, 2.0)):
        shutil.copytree(encoders["bert"], place / "snapshots" / commit)
        rewrite(place / "snapshots" / commit, with_number(KEY, number))
    write_pooling(place / "snapshots" / OLD, "mean")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(OLD, encoding="utf-8")
    (place / "refs" / "v2").write_text(NEW, encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    _commit_of.cache_clear()
    yield place
    _commit_of.cache_clear()


def move_main(hub: Path) -> None:
    """Have somebody push to the hub, before another process looks."""
    (hub / "refs" / "main").write_text(NEW, encoding="utf-8")
    _commit_of.cache_clear()


def number_in(model: torch.nn.Module) -> float:
    return float(model.get_parameter(KEY)[-1].detach())


@pytest.mark.parametrize(
    ("ending", "commit"), [("", OLD), ("@main", OLD), ("@v2", NEW), (f"@{OLD}", OLD), (f"@{NEW}", NEW)]
)
def test_an_encoder_is_read_at_the_commit_that_its_name_bears(ending: str, commit: str, hub: Path) -> None:
    encoder = load_encoder(NAME + ending)
    assert encoder.name == encoder.identity == pin_revision(NAME + ending) == f"{NAME}@{commit}"
    assert number_in(encoder.model) == (1.0 if commit == OLD else 2.0)
    assert encoder.pooling == ("mean" if commit == OLD else "start")


def test_one_process_reads_one_commit_of_what_is_on_the_hub(hub: Path, encoders: dict[str, Path]) -> None:
    assert load_encoder(NAME).name == f"{NAME}@{OLD}"
    (hub / "refs" / "main").write_text(NEW, encoding="utf-8")
    assert number_in(load_encoder(NAME).model) == 1.0
    for name in ("minilm", "mpnet", str(encoders["bert"])):
        assert pin_revision(name) == name


@pytest.mark.parametrize("name", [f"{NAME}@v3", f"{NAME}@{'a' * 40}", "somebody/else"])
def test_a_commit_that_cannot_be_had_is_refused(name: str, hub: Path) -> None:
    message = rf"^{re.escape(name)} is not a bundled encoder\. .*hub did not provide it: "
    with pytest.raises(EncoderError, match=message):
        load_encoder(name)


def test_a_model_records_the_commit_and_can_be_trained_from_it_again(hub: Path, toy: Splits, tmp_path: Path) -> None:
    settings = small.run_settings(Path(NAME), epochs=1, baseline=False, progress=SILENT)
    splits = small.some(toy, 16, 8)
    train(splits, out=tmp_path / "first", **settings)
    move_main(hub)
    loaded = Rationalizer.from_pretrained(tmp_path / "first", device="cpu")
    recorded = loaded.settings["network"]["encoder"]
    assert recorded == f"{NAME}@{OLD}"
    assert f"`network.encoder`: {recorded}" in (tmp_path / "first" / "README.md").read_text(encoding="utf-8")
    for half in ("extractor", "predictor"):
        about = json.loads((tmp_path / "first" / half / "classifier.json").read_text(encoding="utf-8"))
        assert about["network"]["encoder"] == about["encoder_identity"] == recorded
    train(splits, out=tmp_path / "again", **{**settings, "encoder": recorded})
    train(splits, out=tmp_path / "moved", **settings)
    again, moved = (small.digests(tmp_path / name) for name in ("again", "moved"))
    assert again == small.digests(tmp_path / "first")
    assert again["predictor/model.safetensors"] != moved["predictor/model.safetensors"]


def test_a_training_goes_on_from_its_own_commit_only(
    hub: Path, toy: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small.run_settings(Path(NAME), epochs=1, baseline=False, progress=SILENT)
    splits, folder = small.some(toy, 16, 8), tmp_path / "model"
    with monkeypatch.context() as patch:
        patch.setattr(fresh.pipeline, "CHECKPOINT_SECONDS", 0)
        patch.setattr(Rationalizer, "save_pretrained", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(splits, out=folder, **settings)
    move_main(hub)
    expected = f"{partial_folder(folder)} holds an interrupted training that differs in: network.encoder "
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{expected}(it was {NAME}@{OLD}). Finish that one first')}"):
        train(splits, out=folder, **settings)
    model = train(splits, out=folder, **{**settings, "encoder": f"{NAME}@{OLD}"})
    assert model.settings["network"]["encoder"] == f"{NAME}@{OLD}"


def interrupt(*_given: Any, **_more: Any) -> None:
    raise KeyboardInterrupt


def test_a_damaged_encoder_of_the_hub_is_named(hub: Path) -> None:
    rewrite(hub / "snapshots" / OLD, with_number(KEY, float("nan")))
    with pytest.raises(EncoderError, match=f"^The encoder {NAME}@{OLD} has weights that are not finite numbers "):
        load_encoder(NAME)
