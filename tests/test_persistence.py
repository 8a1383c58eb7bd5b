import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import huggingface_hub.hub_mixin
import pytest
from huggingface_hub import ModelCard

import fresh.rationalizer
import small
from fresh.attribution.support_model import SupportModel
from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Mask
from fresh.errors import ModelError, OutputError
from fresh.persistence import card_text, read_files
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer, find_model
from fresh.reporting.report import Report, Row
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from small import LongWords

TEXTS = ["the film was good", "An awful story of two old men, and the sea!", "it plays in great sea film bad"]


# Saving and loading


def test_a_custom_scorer_must_be_passed_again(support: SupportModel, predictor: Predictor, tmp_path: Path) -> None:
    model = Rationalizer(SaliencyExtractor(LongWords(support), TopK(0.3), support), predictor)
    model.save_pretrained(tmp_path / "custom")
    loaded = Rationalizer.from_pretrained(tmp_path / "custom", scorer=LongWords)
    assert small.answers(model.explain(TEXTS)) == small.answers(loaded.explain(TEXTS))
    with pytest.raises(ModelError, match=r"trained with a custom scorer, .*\.LongWords, .*scorer=\.\.\."):
        Rationalizer.from_pretrained(tmp_path / "custom")


def test_an_unknown_extractor_is_not_saved(predictor: Predictor, tmp_path: Path) -> None:
    class Nothing:
        def extract(self, documents: Sequence[Document]) -> list[Mask]:
            return [Mask.full(len(document.words)) for document in documents]

    with pytest.raises(ModelError, match=r"Nothing cannot be saved.*SaliencyExtractor, HumanRationales, FullText"):
        Rationalizer(Nothing(), predictor).save_pretrained(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_only_text_and_safetensors_are_written_without_local_paths(
    model_folder: Path, encoders: dict[str, Path]
) -> None:
    files = [path for path in model_folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".txt", ".md", ".safetensors"}
    listed = {"config.json", "README.md", *small.digests(model_folder)}
    assert {path.relative_to(model_folder).as_posix() for path in files} == listed
    for path in files:
        if path.suffix != ".safetensors":
            text = path.read_text(encoding="utf-8")
            for place in (encoders["bert"].parent, model_folder.parent, Path.home()):
                assert f"{place}/" not in text


def test_a_model_loads_offline_from_elsewhere(rationalizer: Rationalizer, model_folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.move(model_folder, place / "copy")
    code = (
        "import json, fresh\n"
        "model = fresh.Rationalizer.from_pretrained('copy', device='cpu')\n"
        f"print(json.dumps([dict(item.prediction.probabilities) for item in model.explain({TEXTS!r})]))"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "no-cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [dict(item.prediction.probabilities) for item in rationalizer.explain(TEXTS)]


# On the hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for the hub, and keeps a copy of what is uploaded."""

    def upload(repo_id: str, folder_path: Path, **_options: Any) -> str:
        shutil.copytree(folder_path, tmp_path / "hub" / repo_id)
        return f"https://hub/{repo_id}"

    api = Mock(upload_folder=upload)
    api.create_repo.side_effect = lambda repo_id, **_options: Mock(repo_id=repo_id)
    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", lambda token: api)
    return api


def test_a_model_is_pushed_without_its_fingerprints(rationalizer: Rationalizer, hub: Mock, tmp_path: Path) -> None:
    fingerprints = TrainingFingerprints.from_documents(map(Document.from_text, TEXTS))
    model = replace(rationalizer, fingerprints=fingerprints)
    model.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved/trained_on.bin").stat().st_size == 8 * len(TEXTS)
    assert Rationalizer.from_pretrained(tmp_path / "saved").fingerprints is not None
    assert model.push_to_hub("you/my-model", private=True) == "https://hub/you/my-model"
    assert hub.create_repo.call_args.kwargs["private"] is True
    pushed = tmp_path / "hub/you/my-model"
    assert not (pushed / "trained_on.bin").exists()
    loaded = Rationalizer.from_pretrained(pushed)
    assert loaded.fingerprints is None
    assert small.answers(model.explain(TEXTS)) == small.answers(loaded.explain(TEXTS))
    assert 'from_pretrained("you/my-model")' in (pushed / "README.md").read_text(encoding="utf-8")


# Finding a model


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Requests to the hub, from a folder with some models."""
    found = Mock(side_effect=lambda name, **_options: name.replace("/", "-"))
    monkeypatch.setattr(fresh.rationalizer, "snapshot_download", found)
    monkeypatch.chdir(tmp_path)
    for name in ("models/film-model", "models/film-model-2", "models/zebra"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps({"library": "fresh"}), encoding="utf-8")
    (tmp_path / "models/film-notes").mkdir()
    return found


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("models/film-modle", "Similar names: film-model, film-model-2. Give"),
        ("./models/qqqq", "Similar names: film-model, film-model-2, zebra. Give"),
        ("{here}/models/film-modle", "Similar names: film-model, film-model-2. Give"),
        ("./other/deep/model", "There is no saved model in {here}/other/deep"),
        ("my-model", "There is no saved model in {here}"),
        *((name, "") for name in ("./none", "../none", "~/none", "/none", "a/b/c", "a b/c", ".you/none")),
    ],
)
def test_a_missing_folder_is_not_looked_for_on_the_hub(name: str, hint: str, requests: Mock, tmp_path: Path) -> None:
    name, hint = name.format(here=tmp_path), hint.format(here=tmp_path)
    with pytest.raises(ModelError, match=rf"^There is no folder {re.escape(name)}\. .*{re.escape(hint)}"):
        find_model(name, {})
    requests.assert_not_called()


def test_owner_and_name_are_looked_for_on_the_hub(requests: Mock, model_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(model_folder, tmp_path / "you-my-model.v2")
    assert Rationalizer.from_pretrained("you/my-model.v2", revision="v1").labels == ("neg", "pos")
    requests.assert_called_once_with("you/my-model.v2", revision="v1")


def test_a_name_is_not_found_offline() -> None:
    with pytest.raises(ModelError, match=r"no folder you/none, and the model hub did not provide it: .") as caught:
        Rationalizer.from_pretrained("you/none")
    assert "\n" not in str(caught.value)


# Where a model is written


def test_a_model_is_replaced_only_when_asked(
    rationalizer: Rationalizer, model_folder: Path, predictor: Predictor
) -> None:
    before = read_files(model_folder)
    with pytest.raises(OutputError, match=r"already holds a model.*overwrite=True"):
        rationalizer.save_pretrained(model_folder)
    assert read_files(model_folder) == before
    Rationalizer(rationalizer.extractor, predictor, {"ratio": 0.9}).save_pretrained(model_folder, overwrite=True)
    assert Rationalizer.from_pretrained(model_folder).settings == {"ratio": 0.9}
    assert [path.name for path in model_folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_files_are_never_touched(rationalizer: Rationalizer, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for target, reason in ((tmp_path, "holds other files"), (tmp_path / "notes.txt", "is a file")):
        with pytest.raises(OutputError, match=f"^{re.escape(str(target))} {reason}"):
            rationalizer.save_pretrained(target, overwrite=overwrite)
    assert read_files(tmp_path) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["write", "move"])
def test_a_failure_while_writing_leaves_the_old_model(
    step: str, error: BaseException, rationalizer: Rationalizer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move, fail = Path.rename, Mock(side_effect=error)
    before = read_files(model_folder.parent)
    if step == "write":
        monkeypatch.setattr(fresh.rationalizer, "card_text", fail)
    else:
        monkeypatch.setattr(Path, "rename", lambda self, target: (fail if self.name == "new" else move)(self, target))
    with pytest.raises(type(error)):
        rationalizer.save_pretrained(model_folder, overwrite=True)
    assert read_files(model_folder.parent) == before


# The card


def test_the_card_describes_the_model(rationalizer: Rationalizer, tmp_path: Path) -> None:
    report = Report(32, (Row("FRESH (occlusion)", 0.91, 0.92, 0.213),), 0.25, ("The gate has collapsed.",))
    (tmp_path / "reviews").mkdir()  # an empty folder may become a model
    settings = {"ratio": 0.2, "train": {"epochs": 8}}
    Rationalizer(rationalizer.extractor, rationalizer.predictor, settings, True, report).save_pretrained(
        tmp_path / "reviews"
    )
    assert Rationalizer.from_pretrained(tmp_path / "reviews").report == report
    card = ModelCard.load(tmp_path / "reviews" / "README.md")
    assert card.data.library_name == "fresh"
    assert card.data.license is None  # which license applies depends on the training data
    assert card.data.pipeline_tag == "text-classification"
    assert {"rationales", "faithful-explanations"} <= set(card.data.tags)
    for line in (
        "# reviews",
        "Labels: `neg`, `pos`. Each document comes with a query.",
        'explanation = model.explain("Some text.", query="A question?")',
        "On 32 test documents:",
        "Truncation left 25.0% of the words unread.",
        "The gate has collapsed.",
        "| FRESH (occlusion) | .910 | .920 | 21.3% |",
        "- `train.epochs`: 8",
    ):
        assert line in card.text.splitlines()
    promise = "Given the words shown and the query, nothing else can change the answer. Other words can change which"
    assert promise in " ".join(card.text.split())
    plain = " ".join(card_text("reviews", ("neg", "pos"), False, {}, None).split())
    assert "Nothing was measured when the model was saved." in plain
    assert "Given the words shown, nothing else can change the answer." in plain
    assert "was trained on such rationales alone" in plain
    settings = {"method": "fresh", "predictor": "independent"}
    independent = card_text("reviews", ("neg", "pos"), False, settings, None)
    assert "was trained on random words" in independent
    assert "such rationales" not in independent
