import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from fresh.errors import EncoderError
from fresh.nn.classifier import Classifier, to_predictions
from fresh.nn.encoder import Pooling, identify_encoder
from fresh.nn.tokenizer import Text
from fresh.training.config import ClassifierConfig
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext
from networks import last_matrix, read, texts_of, untrained
from tiny import ARCHITECTURES, WORDS, build
from weights import rewrite, without

LAYER = {"distilbert": "body.transformer.layer", "modernbert": "body.layers"}
POOLERS = ("bert", "roberta", "mpnet")
POOLINGS: tuple[Pooling, ...] = ("start", "mean")
RANDOM = r"^The encoder \S+ has no weights for its pooler, which pooling=start uses\. "
NO_POOLER = without("pooler.dense.weight", "pooler.dense.bias")
WORD_PAIRS = [(Text(("good",)), "pos"), (Text(("bad",)), "neg")]


def classifier_of(folder: Path, pooling: Pooling = "start", layers: int | Literal["all"] = 2) -> Classifier:
    """A classifier that was not trained, with a head that makes much of small differences."""
    classifier = untrained(folder, pooling, ("neg", "pos", "so"), layers=layers)
    with torch.no_grad():
        batch, head = read(classifier, texts(16)), last_matrix(classifier)
        head.weight *= 0.2 / classifier(batch).logits.std(0).mean()
        head.bias.sub_(classifier(batch).logits.mean(0))
    return classifier


def texts(n_texts: int) -> list[Text]:
    return texts_of(*np.random.default_rng(3).integers(0, 50, n_texts).tolist())


def trainable(classifier: Classifier) -> set[str]:
    return {name for name, weight in classifier.named_parameters() if weight.requires_grad}


def test_more_layers_than_there_are_cannot_be_trained(encoders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"^layers must be at most 2 for this encoder, or all, got 5\.$"):
        classifier_of(encoders["bert"], layers=5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layers", [0, 1, 2, "all"])
def test_only_the_top_is_trained(architecture: str, layers: Any, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture], layers=layers)
    names = {name for name, _ in classifier.named_parameters()}
    if layers == "all":
        assert names - trainable(classifier) == (
            {"body.encoder.relative_attention_bias.weight"} if architecture == "mpnet" else set()
        )
        return
    place = LAYER.get(architecture, "body.encoder.layer")
    starts = (*(f"{place}.{number}." for number in range(2 - layers, 2)), "head.")
    starts += ("body.pooler.",) * (architecture in POOLERS) + ("body.final_norm.",) * (architecture == "modernbert")
    assert trainable(classifier) == {name for name in names if name.startswith(starts)}
    assert all(any(name.startswith(start) for name in names) for start in starts)
    assert not any("pooler" in name for name in trainable(classifier_of(encoders[architecture], "mean", layers)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_frozen_drops_nothing_out(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture], layers=1).train()
    learning = {id(part) for module in classifier._trained_modules() for part in module.modules()}
    assert id(classifier.head.dropout) in learning
    parts = [part for part in classifier.modules() if part is not classifier]
    assert [part.training for part in parts] == [id(part) in learning for part in parts]
    assert classifier.training
    assert not any(part.training for part in classifier.eval().modules())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_by_hand(architecture: str, pooling: Pooling, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture], pooling)
    text = Text(("a", "good", "film"), ("praise",))
    model, tokenizer = classifier.encoder.model, classifier.encoder.tokenizer
    lead = classifier.tokenizer.prefix
    typed = architecture in ("bert", "electra")
    given = tokenizer(f"{lead}a good film", f"{lead}praise", return_tensors="pt", return_token_type_ids=typed)
    with torch.no_grad():
        hidden = model(**given).last_hidden_state[0]
        pooled = hidden.mean(0) if pooling == "mean" else hidden[0]
        if pooling == "start" and architecture in POOLERS:
            dense = model.get_submodule("pooler.dense")
            pooled = torch.tanh(dense(pooled))
        head = last_matrix(classifier)
        expected = (head.weight @ pooled + head.bias).double().softmax(-1)
    np.testing.assert_allclose(classifier.probabilities([text])[0], expected.numpy(), atol=5e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_neighbours_in_a_batch_do_not_matter(architecture: str, pooling: Pooling, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture], pooling)
    items = texts(64)
    alone = np.concatenate([classifier.probabilities([item]) for item in items])
    assert alone.std(0).max() > 0.01
    order = np.random.default_rng(0).permutation(64)
    collate = classifier.collator(classifier.tokenizer([items[number] for number in order]))
    for size in (2, 7, 64):
        with torch.inference_mode():
            batches = [collate(numbers) for numbers in np.split(np.arange(64), range(size, 64, size))]
            together = torch.cat([classifier(batch).logits for batch in batches]).double().softmax(-1).numpy()
        np.testing.assert_allclose(together, alone[order], atol=1e-5)
    np.testing.assert_allclose(classifier.probabilities(items), alone, atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_positions_are_read(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture], "mean")
    batch = read(classifier, [Text(("good", "film"))])
    assert not torch.equal(classifier(batch).logits, classifier(replace(batch, positions=batch.positions * 3)).logits)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_texts_of_no_words_and_of_very_many_are_read(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture])
    table = classifier.probabilities([Text(()), Text((), ("praise",)), Text(WORDS * 10)])
    np.testing.assert_allclose(table.sum(1), 1)
    assert classifier.probabilities([]).shape == (0, 3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_saved_comes_back_without_pickles_and_paths_of_this_machine(
    architecture: str, pooling: Pooling, encoders: dict[str, Path], tmp_path: Path
) -> None:
    classifier = classifier_of(encoders[architecture], pooling, layers=1)
    classifier.save(tmp_path / "saved")
    loaded = Classifier.load(tmp_path / "saved", "cpu")
    items = [*texts(8), Text(("[SEP]", "\u200b", "<s>"))]
    assert np.array_equal(loaded.probabilities(items), classifier.probabilities(items))
    assert loaded.labels == classifier.labels
    assert trainable(loaded) == trainable(classifier)
    assert loaded.encoder.pooling == pooling
    assert loaded.config == replace(classifier.config, encoder=architecture)
    loaded.save(tmp_path / "again")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".txt", ".safetensors"}
    for path in files:
        content = path.read_bytes()
        assert str(encoders[architecture].parent).encode() not in content, path
        assert str(tmp_path).encode() not in content, path


def test_the_most_probable_label_wins_and_the_earlier_one_where_they_tie() -> None:
    [first, second] = to_predictions(np.array([[0.5, 0.5], [0.25, 0.75]]), ("neg", "pos"))
    assert (first.label, second.label) == ("neg", "pos")
    assert dict(second.probabilities) == {"neg": 0.25, "pos": 0.75}


@torch.no_grad()
@pytest.mark.parametrize("long", ["stagger", "chunk"])
def test_answers_have_more_digits_than_16_bits(long: str, encoders: dict[str, Path]) -> None:
    """Scorers that compare answers to variants of a text would find most of them equal."""
    classifier = untrained(encoders["bert"], "mean", layers=2, long=long)
    with torch.autocast("cpu", torch.bfloat16):
        logits = classifier(read(classifier, texts(6))).logits
    assert logits.dtype == torch.float32
    assert (logits != logits.bfloat16()).any()


def trained_without_pooler(folder: Path, quick: ClassifierConfig, **settings: Any) -> Classifier:
    """Train with an encoder whose files have no weights for its pooler."""
    rewrite(build("bert", folder), NO_POOLER)
    config = ClassifierConfig(replace(quick.network, encoder=str(folder), **settings), replace(quick.train, epochs=1))
    [classifier] = train_classifiers([TrainingPairs(WORD_PAIRS, WORD_PAIRS)], [config], RunContext())
    return classifier


def test_weights_that_an_encoder_lacks_come_from_the_seed(quick: ClassifierConfig, tmp_path: Path) -> None:
    states = []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            with pytest.warns(UserWarning, match=RANDOM):
                states.append(trained_without_pooler(tmp_path / "bert", quick).state_dict())
    first, second = states
    assert "body.pooler.dense.weight" in first
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())


@pytest.mark.parametrize("settings", [{"pooling": "mean"}, {"pooling": "start", "long": "chunk"}])
def test_an_unused_pooler_may_be_missing(settings: dict[str, Any], quick: ClassifierConfig, tmp_path: Path) -> None:
    classifier = trained_without_pooler(tmp_path / "bert", quick, **settings)  # a warning would fail
    classifier.save(tmp_path / "saved")
    rewrite(tmp_path / "saved", NO_POOLER)
    expected = classifier.probabilities(texts(4)).tolist()
    assert Classifier.load(tmp_path / "saved", "cpu").probabilities(texts(4)).tolist() == expected


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (without("layer.0.output.dense.bias"), r"Missing: encoder\.layer\.0\.output\.dense\.bias\. "),
        (NO_POOLER, r"^/.*model\.safetensors has no weights for the pooler, "),
    ],
)
def test_a_saved_network_must_be_whole(change: Any, found: str, encoders: dict[str, Path], tmp_path: Path) -> None:
    classifier_of(encoders["bert"]).save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(EncoderError, match=found):
        Classifier.load(tmp_path, "cpu")


@pytest.mark.parametrize("is_early", [False, True])
def test_what_the_encoder_was_is_recorded(is_early: bool, encoders: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(encoders["bert"])
    classifier.save(tmp_path / "saved")
    path = tmp_path / "saved" / "classifier.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    assert (about["labels"], about["network"]["encoder"]) == (["neg", "pos", "so"], "bert")
    assert about["encoder_identity"] == classifier.encoder.identity == identify_encoder(str(encoders["bert"]))
    if is_early:  # a model that was saved before encoders were recorded
        del about["encoder_identity"]
        path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    loaded = Classifier.load(tmp_path / "saved", "cpu")
    assert loaded.encoder.identity == about.get("encoder_identity", "")
    assert loaded.probabilities(texts(4)).tolist() == classifier.probabilities(texts(4)).tolist()
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "classifier.json").read_bytes() == path.read_bytes()


def test_a_network_can_be_pickled_and_copied(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    expected = classifier.probabilities(texts(4))
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):  # noqa: S301
        np.testing.assert_array_equal(other.probabilities(texts(4)), expected)
        assert other.lock is not classifier.lock


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_last_layer_runs_for_the_start_token_alone_where_that_is_the_same(
    architecture: str, encoders: dict[str, Path]
) -> None:
    """Outputs are those of `test_pooling_by_hand`; here, how many rows are computed, and the gradients."""
    classifier = classifier_of(encoders[architecture], layers="all").eval().double()
    assert classifier.can_skip_rows == (architecture in ("bert", "roberta", "mpnet", "electra"))
    assert not classifier_of(encoders[architecture], "mean").can_skip_rows
    batch = read(classifier, texts(8))
    gradients, rows = [], []
    classifier.encoder.layers[-1].register_forward_hook(
        lambda _module, _inputs, output: rows.append((output[0] if isinstance(output, tuple) else output).shape[1])
    )
    expected = [1 if classifier.can_skip_rows else batch.ids.shape[1], batch.ids.shape[1]]
    for skips in (classifier.can_skip_rows, False):
        classifier.can_skip_rows = skips
        logits = classifier(batch).logits
        gradients.append(torch.autograd.grad(logits.square().sum(), classifier.encoder.word_embeddings.weight)[0])
    assert rows == expected
    torch.testing.assert_close(*gradients, atol=1e-9, rtol=1e-9)
