import json
import re
from pathlib import Path
from typing import Any

import pytest

import fresh.rationalizer
from fresh.errors import ModelError
from fresh.rationalizer import Rationalizer, find_model


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with some models, and no hub."""

    def ask(*given: Any, **hub: Any) -> str:
        raise AssertionError(f"the hub was asked for {given}")

    monkeypatch.setattr(fresh.rationalizer, "snapshot_download", ask)
    monkeypatch.chdir(tmp_path)
    for name in ("models/film-model", "models/film-model-2", "models/zebra"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps({"library": "fresh"}), encoding="utf-8")
    (tmp_path / "models/film-notes").mkdir()
    return tmp_path


def refused(name: str | Path, expected: str) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(expected)}$"):
        find_model(name, {})


def test_a_mistyped_folder_is_not_asked_of_the_hub(here: Path) -> None:
    near = "Similar names: {}. Give one of them, or owner/name for a model on the hub."
    refused("models/film-modle", "There is no folder models/film-modle. " + near.format("film-model, film-model-2"))
    refused("./models/qqqq", "There is no folder ./models/qqqq. " + near.format("film-model, film-model-2, zebra"))
    missing = here / "models/film-modle"
    refused(missing, f"There is no folder {missing}. " + near.format("film-model, film-model-2"))


@pytest.mark.parametrize("name", ["my-model", "./none", "../none", "~/none", "/none", "a/b/c", "a b/c", ".you/none"])
def test_only_owner_and_name_are_asked_of_the_hub(here: Path, name: str) -> None:
    with pytest.raises(ModelError, match=rf"^There is no folder {re.escape(name)}\. "):
        find_model(name, {})


def test_what_is_missing_of_a_path_is_said(here: Path) -> None:
    refused(
        "./other/deep/model",
        f"There is no folder ./other/deep/model. Of its path, only {here} exists. Check the spelling.",
    )
    refused(
        "my-model",
        f"There is no folder my-model. There is no saved model in {here}. Give a folder that `fresh train` wrote.",
    )


def test_a_name_is_asked_of_the_hub(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fresh.rationalizer, "snapshot_download", lambda name, **_hub: str(here / name.replace("/", "-"))
    )
    assert find_model("you/my-model.v2", {}) == here / "you-my-model.v2"


def test_a_name_is_not_found_offline() -> None:
    with pytest.raises(
        ModelError, match=r"^There is no folder you/none, and the model hub did not provide it: ."
    ) as caught:
        Rationalizer.from_pretrained("you/none")
    assert "\n" not in str(caught.value)
