"""Damaged and forged model folders give the same answers, or are refused with a message that names file and problem."""

import errno
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from safetensors.torch import load_file, save_file

import small
from fresh.cli.main import main
from fresh.document import Document
from fresh.errors import EncoderError, ModelError
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import digest_of, load_encoder
from fresh.nn.token_classifier import TokenClassifier
from fresh.persistence import NO_DIGEST, load_predictor, manifest_digest, read_files, write_files
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import HumanRationales, SaliencyExtractor
from fresh.selection.tagger import Tagger
from mutations import Generator, mutate_bytes, mutate_json, pick, survey
from weights import rewrite, with_number

LOAD = "is damaged: it cannot be loaded"
HALVES = ("extractor", "predictor")
NAMES = ("classifier.json", "config.json", "head.safetensors", "model.safetensors", "tokenizer.json")
FILES = [f"{half}/{name}" for half in HALVES for name in (*NAMES, "tokenizer_config.json")]

Change = Callable[[dict[str, Any]], object] | Mapping[str, Any]
"""Changes the content of a file, or gives some of its fields another value."""


def forge_manifest(folder: Path, change: Change) -> None:
    change_json(folder / "config.json", change)
    change_json(folder / "config.json", lambda manifest: manifest.update(sha256=manifest_digest(manifest)))


def rehash(folder: Path) -> None:
    forge_manifest(
        folder, lambda manifest: manifest.update(files={name: digest_of(folder / name) for name in manifest["files"]})
    )


def forge(folder: Path, name: str, change: Change) -> None:
    change_json(folder / name, change)
    rehash(folder)


def forge_head(folder: Path, half: str, key: str, number: float) -> None:
    path = folder / half / "head.safetensors"
    save_file(with_number(key, number)(load_file(path)), path)
    rehash(folder)


def change_json(path: Path, change: Change) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    content.update(change) if isinstance(change, Mapping) else change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def folder(model_folder: Path) -> Path:
    return model_folder


def load(folder: Path) -> Rationalizer:
    return Rationalizer.from_pretrained(folder, device="cpu")


def assert_refused(folder: Path, reason: str, *, start: str | None = None) -> None:
    with pytest.raises(ModelError, match=f"^{start or re.escape(str(folder))}.*{reason}"):
        load(folder)


# Damage


def test_other_folders_are_refused(tmp_path: Path, encoders: dict[str, Path]) -> None:
    assert_refused(tmp_path, r"is not a saved model: it has no config\.json")
    assert_refused(encoders["bert"], r"is not a model of fresh: another program wrote its config\.json")


def test_all_files_are_listed(folder: Path) -> None:
    assert sorted(small.digests(folder)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_or_a_changed_byte_is_found(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert_refused(folder, f"is damaged: {re.escape(name)} has changed")
    (folder / name).unlink()
    assert_refused(folder, f"is damaged: {re.escape(name)} is missing")


@pytest.mark.parametrize("content", [b'{"library": "fr', b"[]", b"[" * 100_000 + b"]" * 100_000])
def test_a_damaged_manifest_is_refused(content: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(content)
    assert_refused(folder, r"config\.json is damaged")


@pytest.mark.parametrize(
    ("name", "value"), [("labels", ["pos", "neg"]), ("asks", True), ("settings", {"ratio": 0.3}), ("version", "9")]
)
def test_a_changed_manifest_is_refused(folder: Path, name: str, value: object) -> None:
    change_json(folder / "config.json", {})
    load(folder)  # another layout does not matter
    change_json(folder / "config.json", {name: value})
    assert_refused(folder, r"is damaged: config\.json has changed")


def test_a_manifest_of_an_earlier_version_is_read_with_a_warning(folder: Path) -> None:
    path = folder / "config.json"
    change_json(path, lambda manifest: manifest.pop("sha256"))
    with pytest.warns(UserWarning, match=f"^{re.escape(NO_DIGEST.format(manifest=path))}$"):
        model = load(folder)
    model.save_pretrained(folder, overwrite=True)
    assert load(folder).labels == model.labels


@pytest.mark.parametrize("name", ["extractor/added_tokens.json", "predictor/model.safetensors.index.json"])
def test_an_added_file_is_refused(folder: Path, name: str) -> None:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / name).with_name(".hidden").write_text("mine", encoding="utf-8")
    load(folder)  # no loader reads either
    (folder / name).write_text("{}", encoding="utf-8")
    assert_refused(folder, f"holds {re.escape(name)}, which is not part of the model.*Remove it")


def test_a_changed_card_is_reported_and_harmless(folder: Path) -> None:
    card = folder / "README.md"
    content = card.read_text(encoding="utf-8")
    message = rf"^{re.escape(str(card))} has changed since the model was saved, .* The model files are unchanged\.$"
    card.write_text(content + "\nAccuracy: 100%\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=message):
        load(folder)
    card.unlink()
    with pytest.warns(UserWarning, match=message):
        load(folder)
    card.write_text(content, encoding="utf-8")
    load(folder)
    card.write_text("mine", encoding="utf-8")
    forge_manifest(folder, lambda manifest: manifest.pop("card"))
    load(folder)  # written by a version that recorded no digest of it


def test_a_changed_card_does_not_vouch_for_changed_files(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    (folder / "predictor/head.safetensors").write_bytes(b"")
    assert_refused(folder, r"predictor/head\.safetensors has changed")
    assert not [str(warning.message) for warning in recwarn if "README.md" in str(warning.message)]


# Files whose digests were recomputed


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_deeply_nested_json_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
    rehash(folder)
    assert_refused(folder, "(is damaged|contains no encoder)", start=f".*{re.escape(str(folder))}")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(
            ("classifier.json", {"labels": labels})
            for labels in (3, ["neg", "pos", "other"], ["neg", {}], ["pos", "pos"])
        ),
        ("classifier.json", {"network": {"encoder": 3}}),
        ("classifier.json", {"network": []}),
        *(("config.json", {"hidden_size": size}) for size in ("wide", 0)),
        ("config.json", {"vocab_size": 10**30}),
        ("config.json", {"max_position_embeddings": 2}),
        ("tokenizer.json", {"model": {}}),
        ("tokenizer.json", {"post_processor": 1}),
        ("tokenizer_config.json", {"pad_token": []}),
    ],
)
def test_values_of_another_shape_are_refused(folder: Path, name: str, change: dict[str, Any]) -> None:
    forge(folder, f"predictor/{name}", change)
    assert_refused(folder, "(is damaged|contains no encoder)", start=f".*{re.escape(str(folder))}")


@pytest.mark.parametrize("spans", [[], {"a": 3}, {"a": [[1]]}, {"a": [["x", "y"]]}, {"a": [[0.5, 1]]}])
def test_human_rationales_of_another_shape_are_refused(predictor: Predictor, tmp_path: Path, spans: object) -> None:
    Rationalizer(HumanRationales({}), predictor).save_pretrained(tmp_path / "model")
    (tmp_path / "model/extractor/rationales.json").write_text(json.dumps(spans), encoding="utf-8")
    rehash(tmp_path / "model")
    assert_refused(tmp_path / "model", "is damaged: it cannot be loaded")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("half", HALVES)
def test_a_head_with_nan_or_inf_is_refused(half: str, number: float, folder: Path) -> None:
    forge_head(folder, half, "weight", number)
    assert_refused(folder, r"head\.safetensors has weights that are not finite numbers.*: weight")
    if half == "predictor":
        with pytest.raises(EncoderError, match=r"head\.safetensors has weights that are not finite numbers"):
            load_predictor(folder / half, "cpu")


def test_a_tagger_with_nan_is_refused(predictor: Predictor, encoders: dict[str, Path], tmp_path: Path) -> None:
    encoder, folder = str(encoders["bert"]), tmp_path / "model"
    tagger = Tagger(TokenClassifier(load_encoder(encoder), "chain", NetworkConfig(encoder)))
    Rationalizer(SaliencyExtractor(tagger, TopK(0.2)), predictor).save_pretrained(folder)
    forge_head(folder, "extractor", "chain.change", float("nan"))
    assert_refused(folder, r"head\.safetensors has weights that are not finite numbers.*: chain\.change")


def of_another_type(frame: str, tokenizer: dict[str, Any]) -> None:
    """Give all tokens of a text, or of one with a query, a type that the encoder does not have."""
    for part in tokenizer["post_processor"][frame]:
        for item in part.values():
            item["type_id"] = 7


IDS = r"^tokenizer\.json .*{half} .*model\.safetensors.* 118.*"


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config", {"return_dict": False}, r"^config\.json .*{half} specifies return_dict: false.*Remove that line"),
        ("config", {"layer_norm_eps": -5.0}, r"^The network .*{half} .*finite.*config\.json or model\.safetensors is"),
        ("config", {"chunk_size_feed_forward": 7}, r"^{folder}.* is damaged: .*chunk size 7"),
        ("tokenizer", lambda found: found["model"]["vocab"].pop("[UNK]"), r"^{folder}.*: .*Missing \[UNK\]"),
        ("tokenizer", lambda found: found["post_processor"].update(special_tokens={}), r"{folder}.* damaged: .*Panic"),
        ("tokenizer", partial(of_another_type, "single"), "^{folder}.* is damaged: .*index out of range"),
        ("tokenizer", lambda found: found["model"]["vocab"].update(film=118), IDS + r"film \(118\)"),
        ("tokenizer", lambda found: found["model"]["vocab"].update(film=99999), IDS + r"film \(99999\)"),
        (
            "tokenizer",
            lambda found: found["post_processor"]["special_tokens"]["[CLS]"].update(ids=[999]),
            IDS + r"\[CLS\] \(999\)",
        ),
    ],
)
def test_a_network_that_cannot_read_is_refused(
    half: str, name: str, change: Change | dict[str, Any], message: str, folder: Path
) -> None:
    forge(folder, f"{half}/{name}.json", change)
    with pytest.raises(ModelError, match=message.format(half=half, folder=re.escape(str(folder)))):
        load(folder)


def test_a_network_that_cannot_read_queries_is_refused_if_the_model_needs_them(folder: Path) -> None:
    forge(folder, "predictor/tokenizer.json", partial(of_another_type, "pair"))
    load(folder)  # reads no queries
    forge_manifest(folder, {"asks": True})
    assert_refused(folder, "is damaged: .*index out of range")


def test_probabilities_that_are_not_finite_are_refused(folder: Path) -> None:
    encoder = folder / "predictor"
    ids = json.loads((encoder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]

    def enlarge(weights: Any) -> Any:
        weights["embeddings.word_embeddings.weight"][ids["film"]] = 3e38  # finite, but what is computed from it is not
        return weights

    rewrite(encoder, enlarge)
    rehash(folder)
    model = load(folder)
    with pytest.raises(ValueError, match=r"^The probabilities of text 1 are not finite numbers: "):
        model.explain([Document.from_text("good"), Document.from_text("film")])


# Manifests whose digest was recomputed


def scored_by(name: str, **settings: Any) -> dict[str, Any]:
    return {"chosen_by": {"kind": "saliency", "scorer": {"name": name, **settings}, "discretizer": TOP_K}}


TOP_K = {"name": "top_k", "ratio": 0.2}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        *(({"format": name}, rf"has format {name}, .* reads format 2\. .*pip install -U") for name in (3, "x")),
        ({"files": {}}, "which is not part of the model"),
        ({"files": {"predictor/config.json": 1, "": None}}, "has changed"),
        *(({"files": files}, LOAD) for files in ([], None, [1])),
        *(({"chosen_by": []}, LOAD), ({"chosen_by": {}}, LOAD), ({"chosen_by": None}, LOAD)),
        *(({"ratios": ratios}, LOAD) for ratios in ([0.1, 0.2, 0.3], ["a", "b"], [0.2, 0.1])),
        *(({"report": {"rows": 1}}, LOAD), ({"report": []}, LOAD)),
        ({"asks": "yes"}, "asks or settings have another type"),
        ({"settings": []}, "asks or settings have another type"),
        (scored_by("integrated_gradients", steps=10**9), f"{LOAD} .*steps must be at most 1000, got 1000000000"),
        (scored_by("integrated_gradients", steps=0), f"{LOAD} .*steps must be at least 1, got 0"),
        (scored_by("integrated_gradients", steps=2.5), rf"{LOAD} .*steps must be a whole number, got 2\.5"),
        (scored_by("lime", samples=10**9), f"{LOAD} .*samples must be at most 10000, got 1000000000"),
        (scored_by("kernel_shap", samples="x"), f"{LOAD} .*samples must be a whole number, got 'x'"),
        (scored_by("attention_gradient", layer="x"), f"{LOAD} .*layer must be a whole number or 'all', got 'x'"),
        (scored_by("occlusion", evidence="x"), f"{LOAD} .*evidence must be 'for' or 'both', got 'x'"),
        (scored_by("attention", layer=9), f"{LOAD} .*layer .*-2 .*1.*got 9"),
        (scored_by("attention", layer="all"), f"{LOAD} .*layer must be a number for the scorer attention, got all"),
        (scored_by("crystal_ball"), "uses the scorer crystal_ball, which this version does not know"),
    ],
)
def test_fields_that_cannot_be_used_are_refused(fields: dict[str, Any], problem: str, folder: Path) -> None:
    forge_manifest(folder, fields)
    assert_refused(folder, problem)


@pytest.mark.parametrize("name", ["chosen_by", "asks", "settings", "report", "ratios", "files"])
def test_a_manifest_must_be_complete(folder: Path, name: str) -> None:
    forge_manifest(folder, lambda manifest: manifest.pop(name))
    assert_refused(folder, f"{LOAD} .KeyError: '{name}'")


def test_a_manifest_cannot_replace_the_support_model(folder: Path) -> None:
    forge_manifest(folder, lambda manifest: manifest["chosen_by"]["scorer"].update(support=3))
    assert load(folder).explain([Document.from_text("good film")])


@pytest.mark.parametrize("name", ["classifier.json", "head.safetensors"])
@pytest.mark.parametrize("half", HALVES)
def test_a_file_that_is_missing_from_the_manifest_too_is_named(half: str, name: str, folder: Path) -> None:
    (folder / half / name).unlink()
    forge_manifest(folder, lambda manifest: manifest["files"].pop(f"{half}/{name}"))
    assert_refused(folder, f" is damaged: .*{name}.* is missing")


# Errors that are no damage


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_an_error_of_the_machine_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(Classifier, "load", Mock(side_effect=error))
    with pytest.raises(type(error)) as caught:
        load(folder)
    assert caught.value is error


def test_an_error_of_the_callers_scorer_is_no_damage(folder: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^no key for the service$"):
        Rationalizer.from_pretrained(folder, scorer=Mock(side_effect=RuntimeError("no key for the service")))


# Random mutations: by accident, and by somebody who recomputes the digests

TEXTS = [{"text": "the film was good"}, {"text": "An awful story of two old men, and the sea!"}]
Files = dict[str, bytes]


def mutate_folder(files: Files, generator: Generator) -> Files:
    """Damage, remove, add or swap files."""
    names = [*sorted(files), *["config.json"] * 4]
    changed, (name, other) = dict(files), (pick(names, generator) for _ in range(2))
    kind = pick(("bytes", "bytes", "fields", "fields", "remove", "swap", "add"), generator)
    if kind == "remove":
        del changed[name]
    elif kind == "swap":
        changed[name], changed[other] = files[other], files[name]
    elif kind == "add":
        changed[pick(("", "extractor/", "predictor/"), generator) + Path(other).name] = files[name]
    elif kind == "fields" and name.endswith(".json"):
        changed[name] = mutate_json(files[name], generator)
    elif kind == "fields" and name.endswith(".safetensors"):  # a name, type, shape or place of a tensor
        size = int.from_bytes(files[name][:8], "little")
        header = mutate_json(files[name][8 : 8 + size], generator)
        changed[name] = len(header).to_bytes(8, "little") + header + files[name][8 + size :]
    else:
        changed[name] = mutate_bytes(files[name], generator)
    return changed


def forge_all(files: Files) -> Files:
    """Recompute all digests of a folder if its manifest can still be read."""
    try:
        manifest = json.loads(files["config.json"])
        names = [name for name in files if name.startswith(("extractor/", "predictor/"))]
        manifest["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in names}
        manifest["sha256"] = manifest_digest(manifest)
    except (KeyError, ValueError, TypeError, RecursionError):
        return files
    return {**files, "config.json": json.dumps(manifest).encode()}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of a card or a manifest that cannot be checked
@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "forged"])
@pytest.mark.parametrize(
    ("batch", "n"), [(9, 25), *(pytest.param(batch, 250, marks=pytest.mark.slow) for batch in range(4))]
)
def test_mutated_models_give_the_same_answers_or_are_refused(
    batch: int, n: int, forged: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, texts, output = read_files(folder), small.write_jsonl(tmp_path / "texts.jsonl", TEXTS), tmp_path / "out"
    command = ["explain", str(folder), "--input", str(texts), "--output", str(output), "--scores", "--device", "cpu"]

    def explain(content: Files) -> str:
        shutil.rmtree(folder)
        output.unlink(missing_ok=True)
        write_files(content, folder)
        refusal: ValueError | None = None
        try:
            load(folder)
        except ValueError as error:
            refusal = error
        assert refusal is None or type(refusal).__module__.startswith("fresh."), repr(refusal)
        status, message = main(command), capsys.readouterr().err
        assert status == (refusal is not None), message
        assert refusal is None or str(refusal) in message, message
        return "refused" if refusal else output.read_text(encoding="utf-8")

    expected = explain(files)

    def attempt(generator: Generator) -> str:
        content = mutate_folder(files, generator)
        found = explain(forge_all(content) if forged else content)
        assert forged or found in (expected, "refused"), "a silent change"
        return "same" if found == expected else "refused" if found == "refused" else "other"

    ends, faults = survey(n, 10 * batch + forged, attempt)
    assert faults == []
    assert ends["refused"] > ends["same"] > 0
