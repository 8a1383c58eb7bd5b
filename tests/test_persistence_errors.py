import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.rationalizer
import small
from fresh.attribution.support_model import SupportModel
from fresh.errors import ModelError, OutputError
from fresh.nn.classifier import Classifier
from fresh.nn.encoder import digest_of
from fresh.persistence import NO_DIGEST, _manifest_digest
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

WAY_OUT = "Copy the model again, or train it again."
FILES = [
    f"{half}/{name}"
    for half in ("extractor", "predictor")
    for name in (
        "classifier.json",
        "config.json",
        "head.safetensors",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    )
]


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture
def folder(model: Rationalizer, tmp_path: Path) -> Path:
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def snapshot(folder: Path) -> dict[str, bytes]:
    """All that a folder holds, hidden files too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest, as somebody does who computes its digest anew."""
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    manifest["sha256"] = _manifest_digest(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def refused(folder: Path, message: str) -> None:
    """Check the words with which a folder is refused."""
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        Rationalizer.from_pretrained(folder)


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    refused(
        tmp_path,
        f"{tmp_path} is not a saved model: it has no config.json. Give a folder that `fresh train` wrote.",
    )


def test_a_model_of_something_else_is_refused(encoders: dict[str, Path]) -> None:
    place = encoders["bert"]
    refused(place, f"{place} is not a model of fresh: another program wrote its config.json.")


def test_a_model_of_a_newer_version_is_refused(folder: Path) -> None:
    edit(folder, lambda manifest: manifest.update(format=3))
    refused(
        folder,
        f"{folder} was written by a newer version of fresh (format 3, this version reads 2). "
        "Update it: pip install -U fresh-rationales",
    )


def test_a_model_of_an_older_version_is_refused(folder: Path) -> None:
    edit(folder, lambda manifest: manifest.update(format=1))
    refused(
        folder,
        f"{folder} was written by an older version of fresh (format 1, this version reads 2). Train the model again.",
    )


def test_all_files_are_listed(folder: Path) -> None:
    assert sorted(small.digests(folder)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, f"{folder} is damaged: {name} is missing. {WAY_OUT}")


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_noticed(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    refused(folder, f"{folder} is damaged: {name} has changed. {WAY_OUT}")


def test_a_truncated_manifest_is_noticed(folder: Path) -> None:
    path = folder / "config.json"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ModelError, match=f"^{re.escape(str(path))} is damaged: .*{re.escape(WAY_OUT)}$"):
        Rationalizer.from_pretrained(folder)


def test_a_manifest_must_be_an_object(folder: Path) -> None:
    (folder / "config.json").write_text("[]", encoding="utf-8")
    refused(folder, f"{folder / 'config.json'} is damaged: it does not hold a JSON object. {WAY_OUT}")


@pytest.mark.parametrize(("name", "value"), [("files", [1]), ("chosen_by", None), ("chosen_by", {}), ("format", "x")])
def test_a_manifest_must_have_its_shape(folder: Path, name: str, value: object) -> None:
    edit(folder, lambda manifest: manifest.update({name: value}))
    refused(folder, f"{folder} is damaged: its config.json has unexpected content. {WAY_OUT}")


@pytest.mark.parametrize("name", ["labels", "chosen_by", "asks", "settings", "report", "ratios", "files"])
def test_a_manifest_must_be_complete(folder: Path, name: str) -> None:
    edit(folder, lambda manifest: manifest.pop(name))
    refused(folder, f"{folder / 'config.json'} is damaged: {name} is missing. {WAY_OUT}")


@pytest.mark.parametrize("nothing", [{}, [], None])
def test_a_manifest_without_a_list_of_files_is_refused(folder: Path, nothing: object) -> None:
    edit(folder, lambda manifest: manifest.update(files=nothing))
    refused(folder, f"{folder / 'config.json'} is damaged: it lists no files, so none can be checked. {WAY_OUT}")


@pytest.mark.parametrize(
    ("name", "value"), [("labels", ["pos", "neg"]), ("asks", True), ("settings", {"ratio": 0.3}), ("version", "9")]
)
def test_a_changed_manifest_is_noticed(folder: Path, name: str, value: object) -> None:
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")
    Rationalizer.from_pretrained(folder)  # another layout is no change
    path.write_text(json.dumps(manifest | {name: value}), encoding="utf-8")
    refused(folder, f"{folder} is damaged: config.json has changed. {WAY_OUT}")


def test_a_manifest_of_an_earlier_version_is_read_with_a_warning(folder: Path) -> None:
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    del manifest["sha256"]
    path.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.warns(UserWarning, match=f"^{re.escape(NO_DIGEST.format(manifest=path))}$"):
        model = Rationalizer.from_pretrained(folder)
    model.save_pretrained(folder, overwrite=True)
    assert Rationalizer.from_pretrained(folder).labels == model.labels


@pytest.mark.parametrize("name", ["extractor/added_tokens.json", "predictor/model.safetensors.index.json"])
def test_a_file_that_was_not_saved_is_noticed(folder: Path, name: str) -> None:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / name).with_name(".hidden").write_text("mine", encoding="utf-8")
    Rationalizer.from_pretrained(folder)  # neither is among what is loaded
    (folder / name).write_text("{}", encoding="utf-8")
    refused(
        folder, f"{folder} holds {name}, which is not part of the model but could be read as if it were. Remove it."
    )


def test_a_file_that_is_taken_off_the_list_is_noticed(folder: Path) -> None:
    edit(folder, lambda manifest: manifest["files"].pop("predictor/head.safetensors"))
    told = "which is not part of the model but could be read as if it were. Remove it."
    refused(folder, f"{folder} holds predictor/head.safetensors, {told}")


def test_a_changed_card_is_told_and_does_no_harm(folder: Path) -> None:
    card = folder / "README.md"
    content = card.read_text(encoding="utf-8")
    told = rf"^{re.escape(str(card))} has changed since the model was saved, .* The model files are unchanged\.$"
    card.write_text(content + "\nAccuracy: 100%\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=told):
        Rationalizer.from_pretrained(folder)
    card.unlink()
    with pytest.warns(UserWarning, match=told):
        Rationalizer.from_pretrained(folder)
    card.write_text(content, encoding="utf-8")
    Rationalizer.from_pretrained(folder)


def test_a_changed_card_does_not_vouch_for_changed_files(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    (folder / "predictor/head.safetensors").write_bytes(b"")
    refused(folder, f"{folder} is damaged: predictor/head.safetensors has changed. {WAY_OUT}")
    assert not [str(warning.message) for warning in recwarn if "README.md" in str(warning.message)]


def test_a_model_that_was_saved_without_the_digest_of_its_card_loads(folder: Path) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    edit(folder, lambda manifest: manifest.pop("card"))
    Rationalizer.from_pretrained(folder)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("name", ["config.json", *(name for name in FILES if name.endswith(".json"))])
def test_json_that_is_too_deep_is_told(folder: Path, name: str) -> None:
    (folder / name).write_text(DEEP, encoding="utf-8")
    if name != "config.json":
        edit(folder, lambda manifest: manifest["files"].update({name: digest_of(folder / name)}))
    with pytest.raises(ValueError, match=f"^.*{re.escape(str(folder))}.* (is damaged|contains no encoder)"):
        Rationalizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("classifier.json", {"labels": 3}),
        ("classifier.json", {"labels": ["neg", "pos", "other"]}),
        ("classifier.json", {"labels": ["neg", {}]}),
        ("classifier.json", {"labels": ["pos", "pos"]}),
        ("classifier.json", {"network": {"encoder": 3}}),
        ("classifier.json", {"network": []}),
        ("config.json", {"hidden_size": "wide"}),
        ("config.json", {"hidden_size": 0}),
        ("config.json", {"vocab_size": 10**30}),
        ("config.json", {"max_position_embeddings": 2}),
        ("tokenizer.json", {"model": {}}),
        ("tokenizer.json", {"post_processor": 1}),
        ("tokenizer_config.json", {"pad_token": []}),
    ],
)
def test_files_of_another_shape_are_told(folder: Path, name: str, change: dict[str, Any]) -> None:
    path = folder / "predictor" / name
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | change), encoding="utf-8")
    edit(folder, lambda manifest: manifest["files"].update({f"predictor/{name}": digest_of(path)}))
    with pytest.raises(ValueError, match=f"^.*{re.escape(str(folder))}.* (is damaged|contains no encoder)"):
        Rationalizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", "pos"),
        ("asks", "yes"),
        ("settings", []),
        ("ratios", [0.1, 0.2, 0.3]),
        ("ratios", ["a", "b"]),
        ("chosen_by", []),
        ("files", {"predictor/config.json": 1, "": None}),
        ("report", {"rows": 1}),
        ("report", []),
    ],
)
def test_a_manifest_of_another_shape_is_told(folder: Path, name: str, value: object) -> None:
    edit(folder, lambda manifest: manifest.update({name: value}))
    with pytest.raises(ModelError, match=f"^{re.escape(str(folder))} is damaged: "):
        Rationalizer.from_pretrained(folder)


def test_an_unknown_scorer_is_named(folder: Path) -> None:
    edit(folder, lambda manifest: manifest["chosen_by"]["scorer"].update(name="crystal_ball"))
    refused(folder, f"{folder} uses the scorer crystal_ball, which this version does not know.")


def test_a_model_is_replaced_only_when_asked(model: Rationalizer, folder: Path, predictor: Predictor) -> None:
    before = snapshot(folder)
    with pytest.raises(OutputError, match=rf"^{re.escape(str(folder))} already holds a model.*overwrite=True"):
        model.save_pretrained(folder)
    assert snapshot(folder) == before
    Rationalizer(model.extractor, predictor, {"ratio": 0.9}).save_pretrained(folder, overwrite=True)
    assert Rationalizer.from_pretrained(folder).settings == {"ratio": 0.9}
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_other_files_are_never_touched(model: Rationalizer, tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=rf"^{re.escape(str(tmp_path))} holds other files, .* for the model"):
        model.save_pretrained(tmp_path, overwrite=overwrite)
    assert snapshot(tmp_path) == {"notes.txt": b"mine"}


def test_a_file_is_no_folder(model: Rationalizer, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=f"^{re.escape(str(target))} is a file"):
        model.save_pretrained(target, overwrite=True)
    assert target.read_text(encoding="utf-8") == "mine"


def test_an_empty_folder_may_become_a_model(model: Rationalizer, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    model.save_pretrained(tmp_path / "model")
    assert Rationalizer.from_pretrained(tmp_path / "model").labels == model.labels


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_model(
    model: Rationalizer, folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_arguments: object, **_settings: object) -> None:
        raise error

    before = snapshot(folder.parent)
    monkeypatch.setattr(fresh.rationalizer, "card_text", fail)
    with pytest.raises(type(error)):
        model.save_pretrained(folder, overwrite=True)
    assert snapshot(folder.parent) == before


def test_a_failure_of_the_last_move_brings_the_old_model_back(
    model: Rationalizer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = Path.rename

    def fail_for_new(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("no more links")
        return move(self, target)

    before = snapshot(folder.parent)
    monkeypatch.setattr(Path, "rename", fail_for_new)
    with pytest.raises(OSError, match="no more links"):
        model.save_pretrained(folder, overwrite=True)
    assert snapshot(folder.parent) == before


def test_a_panic_of_the_tokenizers_library_is_a_damaged_folder(folder: Path) -> None:
    path = folder / "predictor" / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["post_processor"]["special_tokens"] = {}
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    edit(folder, lambda manifest: manifest["files"].update({"predictor/tokenizer.json": digest_of(path)}))
    with pytest.raises(ModelError, match=r"is damaged: it cannot be loaded \(PanicException: no entry found for key\)"):
        Rationalizer.from_pretrained(folder)


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_an_error_of_the_machine_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(Classifier, "load", fail)
    with pytest.raises(type(error)) as caught:
        Rationalizer.from_pretrained(folder)
    assert caught.value is error


def test_an_error_of_the_callers_scorer_is_no_damage(folder: Path) -> None:
    def factory(_support: SupportModel) -> Any:
        raise RuntimeError("no key for the service")

    with pytest.raises(RuntimeError, match=r"^no key for the service$"):
        Rationalizer.from_pretrained(folder, scorer=factory)
