"""Model folders that somebody changed and whose digests were computed anew: each is refused, with file and problem."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import small
from fresh.attribution.support_model import SupportModel
from fresh.document import Document
from fresh.errors import EncoderError, ModelError
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import digest_of, load_encoder
from fresh.nn.token_classifier import TokenClassifier
from fresh.persistence import _manifest_digest, load_predictor
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from weights import rewrite, with_number

HALVES = ("extractor", "predictor")
WAY_OUT = "Copy the model again, or train it again."
Content = dict[str, Any]


@pytest.fixture
def folder(support: SupportModel, predictor: Predictor, tmp_path: Path) -> Path:
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def forge(folder: Path, name: str, change: Callable[[Content], object]) -> None:
    """Change a JSON file of a model and compute all digests anew."""
    path = folder / name
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    reseal(folder)


def reseal(folder: Path) -> None:
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"] = {name: digest_of(folder / name) for name in manifest["files"]}
    manifest["sha256"] = _manifest_digest(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def refused(folder: Path, message: str) -> None:
    with pytest.raises((ModelError, EncoderError), match=f"^{re.escape(message)}$"):
        Rationalizer.from_pretrained(folder, device="cpu")


def damaged(folder: Path, problem: str) -> None:
    """Check that a folder is refused for what happens when its network is tried."""
    with pytest.raises(ModelError, match=f"^{re.escape(str(folder))}.* is damaged: .*{problem}"):
        Rationalizer.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("half", HALVES)
def test_outputs_without_names_are_refused(half: str, folder: Path) -> None:
    forge(folder, f"{half}/config.json", lambda config: config.update(return_dict=False))
    told = "specifies return_dict: false, but its outputs are read by name. Remove that line."
    refused(folder, f"config.json of the encoder {folder / half} {told}")


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("token", "change"),
    [
        ("film (118)", lambda tokenizer: tokenizer["model"]["vocab"].update(film=118)),
        ("film (99999)", lambda tokenizer: tokenizer["model"]["vocab"].update(film=99999)),
        ("[CLS] (99999)", lambda tokenizer: tokenizer["post_processor"]["special_tokens"]["[CLS]"].update(ids=[99999])),
    ],
)
def test_ids_beyond_the_embeddings_are_refused(
    half: str, token: str, change: Callable[[Content], object], folder: Path
) -> None:
    forge(folder, f"{half}/tokenizer.json", change)
    refused(
        folder,
        f"tokenizer.json of the encoder {folder / half} gives ids to tokens for which model.safetensors has no "
        f"embedding (it has 118): {token}. The folder is damaged: copy it again.",
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("half", HALVES)
def test_a_head_of_no_finite_numbers_is_refused(half: str, number: float, folder: Path) -> None:
    path = folder / half / "head.safetensors"
    save_file(with_number("weight", number)(load_file(path)), path)
    reseal(folder)
    refused(folder, f"{path} has weights that are not finite numbers (NaN or infinity): weight. {WAY_OUT}")
    if half == "predictor":
        with pytest.raises(EncoderError, match=r"head\.safetensors has weights that are not finite numbers"):
            load_predictor(folder / half, "cpu")


def test_a_tagger_of_no_finite_numbers_is_refused(
    predictor: Predictor, encoders: dict[str, Path], tmp_path: Path
) -> None:
    encoder = str(encoders["bert"])
    tagger = Tagger(TokenClassifier(load_encoder(encoder), "chain", NetworkConfig(encoder)))
    Rationalizer(SaliencyExtractor(tagger, TopK(0.2)), predictor).save_pretrained(tmp_path / "model")
    path = tmp_path / "model/extractor/head.safetensors"
    save_file(with_number("chain.change", float("nan"))(load_file(path)), path)
    reseal(tmp_path / "model")
    refused(
        tmp_path / "model",
        f"{path} has weights that are not finite numbers (NaN or infinity): chain.change. {WAY_OUT}",
    )


@pytest.mark.parametrize("half", HALVES)
def test_outputs_of_no_finite_numbers_are_refused(half: str, folder: Path) -> None:
    forge(folder, f"{half}/config.json", lambda config: config.update(layer_norm_eps=-5.0))
    told = "puts out numbers that are not finite (NaN or infinity): config.json or model.safetensors is damaged."
    refused(folder, f"The network in {folder / half} {told} {WAY_OUT}")


def of_another_type(frame: str, tokenizer: Content) -> None:
    """Give all tokens of a text, or of one with a query, a type that the encoder does not have."""
    for part in tokenizer["post_processor"][frame]:
        for item in part.values():
            item["type_id"] = 7


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("name", "problem", "change"),
    [
        ("config.json", "chunk size 7", lambda config: config.update(chunk_size_feed_forward=7)),
        ("tokenizer.json", r"Missing \[UNK\]", lambda tokenizer: tokenizer["model"]["vocab"].pop("[UNK]")),
        (
            "tokenizer.json",
            "index out of range",
            partial(of_another_type, "single"),
        ),
    ],
)
def test_a_network_that_cannot_read_is_refused(
    half: str, name: str, problem: str, change: Callable[[Content], object], folder: Path
) -> None:
    forge(folder, f"{half}/{name}", change)
    damaged(folder, problem)


def test_a_network_that_cannot_read_queries_is_refused_where_it_is_to(folder: Path) -> None:
    forge(folder, "predictor/tokenizer.json", partial(of_another_type, "pair"))
    Rationalizer.from_pretrained(folder, device="cpu")  # asks no queries
    forge(folder, "config.json", lambda manifest: manifest.update(asks=True))
    damaged(folder, "index out of range")


def test_an_answer_of_no_finite_numbers_is_refused(folder: Path) -> None:
    encoder = folder / "predictor"
    ids = json.loads((encoder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]

    def enlarge(weights: Any) -> Any:
        weights["embeddings.word_embeddings.weight"][ids["film"]] = 3e38  # finite, but not what is computed from it
        return weights

    rewrite(encoder, enlarge)
    reseal(folder)
    model = Rationalizer.from_pretrained(folder, device="cpu")
    with pytest.raises(ValueError, match=r"^The probabilities of text 1 are not finite numbers: "):
        model.explain([Document.from_text("good"), Document.from_text("film")])


@pytest.mark.parametrize(
    ("scorer", "problem"),
    [
        ({"name": "integrated_gradients", "steps": 10**9}, "steps must be at most 1000, got 1000000000."),
        ({"name": "integrated_gradients", "steps": 0}, "steps must be at least 1, got 0."),
        ({"name": "integrated_gradients", "steps": 2.5}, "steps must be a whole number, got 2.5."),
        ({"name": "lime", "samples": 10**9}, "samples must be at most 10000, got 1000000000."),
        ({"name": "kernel_shap", "samples": "x"}, "samples must be a whole number, got 'x'."),
        ({"name": "attention_gradient", "layer": "x"}, "layer must be a whole number or 'all', got 'x'."),
        ({"name": "attention", "layer": 9}, "layer must be between -2 and 1 for this encoder, got 9."),
        ({"name": "attention", "layer": "all"}, "layer must be a number for the scorer attention, got all."),
    ],
)
def test_settings_of_a_scorer_that_cannot_be_used_are_refused(scorer: Content, problem: str, folder: Path) -> None:
    forge(folder, "config.json", lambda manifest: manifest["chosen_by"].update(scorer=scorer))
    told = f"is damaged: settings of the scorer {scorer['name']} cannot be used. {problem} {WAY_OUT}"
    refused(folder, f"{folder / 'config.json'} {told}")


@pytest.mark.parametrize("name", ["classifier.json", "head.safetensors"])
@pytest.mark.parametrize("half", HALVES)
def test_a_file_that_is_missing_from_the_manifest_too_is_named(half: str, name: str, folder: Path) -> None:
    (folder / half / name).unlink()
    forge(folder, "config.json", lambda manifest: manifest["files"].pop(f"{half}/{name}"))
    with pytest.raises(ModelError, match=f"^{re.escape(str(folder))}.* is damaged: .*{name}.* is missing"):
        Rationalizer.from_pretrained(folder, device="cpu")


def test_a_manifest_does_not_take_the_place_of_the_support_model(folder: Path) -> None:
    forge(folder, "config.json", lambda manifest: manifest["chosen_by"]["scorer"].update(support=3))
    assert Rationalizer.from_pretrained(folder, device="cpu").explain([Document.from_text("good film")])
