import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub.hub_mixin
import pytest
from huggingface_hub import ModelCard

import fresh.rationalizer
import small
from fresh.attribution.support_model import SupportModel
from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Example, Explanation, Mask
from fresh.errors import ModelError
from fresh.nn.encoder import digest_of
from fresh.persistence import _manifest_digest
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Row
from fresh.selection.discretizers import GlobalContiguous, GlobalTopK, LearnedContiguous, LearnedTopK, TopK
from fresh.selection.extractors import FullText, HumanRationales, SaliencyExtractor
from shared_model_folder import LongWords

TEXTS = ["the film was good", "An awful story of two old men, and the sea!", "it plays in great sea film bad"]


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture
def folder(model: Rationalizer, tmp_path: Path) -> Path:
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def assert_equal(some: Sequence[Explanation], others: Sequence[Explanation]) -> None:
    """The same to the last bit."""
    for one, other in zip(some, others, strict=True):
        assert one.prediction == other.prediction
        assert one.mask == other.mask
        assert one.saliency is not None
        assert other.saliency is not None
        assert one.saliency.scores.tolist() == other.saliency.scores.tolist()
        assert one.saliency.target == other.saliency.target


def test_a_loaded_model_explains_as_before_to_the_bit(model: Rationalizer, folder: Path) -> None:
    loaded = Rationalizer.from_pretrained(folder, device="cpu")
    assert_equal(model.explain(TEXTS), loaded.explain(TEXTS))
    assert loaded.labels == model.labels
    assert loaded.settings == {"ratio": 0.2}


def test_saving_a_loaded_model_changes_nothing(folder: Path, tmp_path: Path) -> None:
    Rationalizer.from_pretrained(folder).save_pretrained(tmp_path / "again")
    assert small.digests(tmp_path / "again") == small.digests(folder)


def test_nothing_but_text_and_safetensors_is_written(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".txt", ".md", ".safetensors"}
    listed = {"config.json", "README.md", *small.digests(folder)}
    assert {path.relative_to(folder).as_posix() for path in files} == listed


def test_no_path_of_this_machine_is_written(folder: Path, encoders: dict[str, Path]) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors":
            text = path.read_text(encoding="utf-8")
            assert str(encoders["bert"].parent) not in text
            assert str(folder.parent) not in text
            assert str(Path.home()) + "/" not in text


def test_a_model_loads_offline_from_elsewhere(model: Rationalizer, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.move(folder, place / "copy")
    code = (
        "import json, fresh\n"
        "model = fresh.Rationalizer.from_pretrained('copy', device='cpu')\n"
        f"print(json.dumps([dict(item.prediction.probabilities) for item in model.explain({TEXTS!r})]))"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "no-cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [dict(item.prediction.probabilities) for item in model.explain(TEXTS)]


class Recorder:
    """Stands in for the hub: keeps a copy of what is uploaded."""

    place: Path
    asked: dict[str, Any]

    def __init__(self, token: str | None = None) -> None:
        self.token = token

    def create_repo(self, repo_id: str, **asked: Any) -> Any:
        Recorder.asked = asked
        return type("Repository", (), {"repo_id": repo_id})

    def upload_folder(self, repo_id: str, folder_path: Path, **_asked: Any) -> str:
        shutil.copytree(folder_path, self.place / repo_id)
        return f"https://hub/{repo_id}"


def test_what_is_pushed_can_be_loaded(model: Rationalizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Recorder)
    monkeypatch.setattr(Recorder, "place", tmp_path, raising=False)
    assert model.push_to_hub("you/my-model", private=True) == "https://hub/you/my-model"
    assert Recorder.asked["private"] is True
    assert_equal(model.explain(TEXTS), Rationalizer.from_pretrained(tmp_path / "you/my-model").explain(TEXTS))
    card = (tmp_path / "you/my-model/README.md").read_text(encoding="utf-8")
    assert 'Rationalizer.from_pretrained("you/my-model")' in card


def test_which_texts_were_trained_with_stays_at_home(
    model: Rationalizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Recorder)
    monkeypatch.setattr(Recorder, "place", tmp_path, raising=False)
    knowing = replace(model, fingerprints=TrainingFingerprints.from_documents(map(Document.from_text, TEXTS)))
    knowing.save_pretrained(tmp_path / "saved")
    knowing.push_to_hub("you/my-model")
    assert (tmp_path / "saved/trained_on.bin").stat().st_size == 8 * len(TEXTS)
    assert not (tmp_path / "you/my-model/trained_on.bin").exists()
    assert Rationalizer.from_pretrained(tmp_path / "you/my-model").fingerprints is None


def test_a_model_is_fetched_from_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def fetch(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr(fresh.rationalizer, "snapshot_download", fetch)
    assert Rationalizer.from_pretrained("you/my-model", revision="v1").labels == ("neg", "pos")
    assert asked == {"name": "you/my-model", "revision": "v1"}


def test_a_misspelt_option_of_saving_is_refused(model: Rationalizer, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="overwrit"):
        model.save_pretrained(tmp_path / "model", overwrit=True)  # type: ignore[call-arg]


def test_the_card_says_what_a_reader_must_know(support: SupportModel, predictor: Predictor, tmp_path: Path) -> None:
    pair = small.rationalizer(support, predictor, TopK(0.2))
    report = Report(32, (Row("FRESH (occlusion)", 0.91, 0.92, 0.213),))
    settings = {"ratio": 0.2, "train": {"epochs": 8}}
    Rationalizer(pair.extractor, predictor, settings, True, report).save_pretrained(tmp_path / "reviews")
    card = ModelCard.load(tmp_path / "reviews" / "README.md")
    assert card.data.library_name == "fresh"
    assert card.data.license is None  # that of a model is for those to say whose texts it learnt from
    assert card.data.pipeline_tag == "text-classification"
    assert {"rationales", "faithful-explanations"} <= set(card.data.tags)
    for line in (
        "# reviews",
        "Labels: `neg`, `pos`. Each document comes with a query.",
        'explanation = model.explain("Some text.", query="A question?")',
        "On 32 test documents:",
        "| FRESH (occlusion) | .910 | .920 | 21.3% |",
        "- `train.epochs`: 8",
    ):
        assert line in card.text.splitlines()
    said = "Given the words shown and the query, nothing else can change the answer. Other words can change which words"
    assert said in " ".join(card.text.split())


def test_a_card_without_figures_says_so(folder: Path) -> None:
    text = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert "Nothing was measured when the model was saved." in text
    assert "Given the words shown, nothing else can change the answer." in text


def test_a_scorer_of_ones_own_is_given_again(support: SupportModel, predictor: Predictor, tmp_path: Path) -> None:
    model = Rationalizer(SaliencyExtractor(LongWords(support), TopK(0.3), support), predictor)
    model.save_pretrained(tmp_path / "own")
    loaded = Rationalizer.from_pretrained(tmp_path / "own", scorer=LongWords)
    assert_equal(model.explain(TEXTS), loaded.explain(TEXTS))
    with pytest.raises(ModelError) as caught:
        Rationalizer.from_pretrained(tmp_path / "own")
    assert str(caught.value) == (
        f"{tmp_path / 'own'} was trained with a custom scorer, shared_model_folder.LongWords, which is not saved "
        "with the model. Pass it: Rationalizer.from_pretrained(folder, scorer=...)."
    )


@pytest.mark.parametrize(
    ("budget", "kind"), [(GlobalTopK(0.3), LearnedTopK), (GlobalContiguous(0.3), LearnedContiguous)]
)
def test_a_learned_cutoff_survives(
    budget: GlobalTopK, kind: type, support: SupportModel, predictor: Predictor, tmp_path: Path
) -> None:
    documents = [Document.from_text(text) for text in TEXTS]
    learned = budget.learn(small.rationalizer(support, predictor, budget).extractor.score(documents))  # type: ignore[attr-defined]
    model = small.rationalizer(support, predictor, learned)
    model.save_pretrained(tmp_path / "model")
    loaded = Rationalizer.from_pretrained(tmp_path / "model")
    assert isinstance(loaded.extractor, SaliencyExtractor)
    assert isinstance(loaded.extractor.discretizer, kind)
    assert loaded.extractor.discretizer == learned
    assert_equal(model.explain(TEXTS), loaded.explain(TEXTS))


def test_a_model_that_keeps_all_survives(predictor: Predictor, tmp_path: Path) -> None:
    Rationalizer(FullText(), predictor).save_pretrained(tmp_path / "model")
    loaded = Rationalizer.from_pretrained(tmp_path / "model")
    assert loaded.extractor == FullText()
    assert not (tmp_path / "model/extractor").exists()


def test_a_model_of_human_rationales_survives(predictor: Predictor, tmp_path: Path) -> None:
    documents = [Document.from_text(text) for text in TEXTS]
    masks = [Mask.from_spans([(1, 3)], len(item.words)) for item in documents]
    examples = [Example(item, "pos", mask) for item, mask in zip(documents, masks, strict=True)]
    model = Rationalizer(HumanRationales.of(examples), predictor)
    model.save_pretrained(tmp_path / "model")
    loaded = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.extractor == model.extractor
    explained = loaded.explain(TEXTS)
    assert [item.mask for item in explained] == masks
    assert [item.prediction for item in explained] == [item.prediction for item in model.explain(TEXTS)]
    assert "extractor/rationales.json" in small.digests(tmp_path / "model")


@pytest.mark.parametrize("marks", [[], {"a": 3}, {"a": [[1]]}, {"a": [["x", "y"]]}, {"a": [[0.5, 1]]}])
def test_human_rationales_of_another_shape_are_told(predictor: Predictor, tmp_path: Path, marks: object) -> None:
    Rationalizer(HumanRationales({}), predictor).save_pretrained(tmp_path / "model")
    path = tmp_path / "model/extractor/rationales.json"
    path.write_text(json.dumps(marks), encoding="utf-8")
    manifest = json.loads((tmp_path / "model/config.json").read_text(encoding="utf-8"))
    manifest["files"]["extractor/rationales.json"] = digest_of(path)
    manifest["sha256"] = _manifest_digest(manifest)
    (tmp_path / "model/config.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ModelError, match="is damaged: it cannot be loaded"):
        Rationalizer.from_pretrained(tmp_path / "model")


def test_what_should_be_known_of_the_figures_survives(
    support: SupportModel, predictor: Predictor, tmp_path: Path
) -> None:
    pair = small.rationalizer(support, predictor, TopK(0.2))
    report = Report(32, (Row("Lei et al.", 0.91, 0.92, 0.213),), 0.25, ("The gate has collapsed.",))
    Rationalizer(pair.extractor, predictor, {}, False, report).save_pretrained(tmp_path / "model")
    assert Rationalizer.from_pretrained(tmp_path / "model").report == report
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8").splitlines()
    assert "Truncation left 25.0% of the words unread." in card
    assert "The gate has collapsed." in card


def test_an_unknown_extractor_is_not_saved(predictor: Predictor, tmp_path: Path) -> None:
    class Nothing:
        def extract(self, documents: Sequence[Document]) -> list[Mask]:
            return [Mask.full(len(document.words)) for document in documents]

    expected = r"^Nothing cannot be saved\. There are: SaliencyExtractor, HumanRationales, FullText\.$"
    with pytest.raises(ModelError, match=expected):
        Rationalizer(Nothing(), predictor).save_pretrained(tmp_path / "model")
    assert not list(tmp_path.iterdir())
