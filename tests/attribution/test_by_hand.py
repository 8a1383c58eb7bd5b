"""Scores against the same numbers computed in another way."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fresh.attribution import make_scorer
from fresh.attribution.attention import Attention, AttentionGradient, AttentionShift
from fresh.attribution.gradient import Gradient, IntegratedGradients
from fresh.attribution.perturbation import KernelShap, Occlusion
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.nn.batch import sum_by_word
from fresh.nn.classifier import Classifier
from fresh.nn.encoder import Pooling
from fresh.nn.tokenizer import Text
from fresh.training.config import EngineConfig, TrainConfig
from fresh.training.loop import inference_precision
from networks import documents, support_of
from tiny import ARCHITECTURES

ASKED = Document.from_words(("a", "good", "unheard-of", "film"), ("praise",), "asked")
TOKENS = (1, 1, 9, 1)  # u ##n ##h ##e ##a ##r ##d - of


def inputs(support: SupportModel, document: Document) -> dict[str, Tensor]:
    """What BERT's own tokenizer makes of a document and its query."""
    tokenizer = support.classifier.encoder.tokenizer
    given = tokenizer(
        " ".join(document.words), " ".join(document.query), return_tensors="pt", return_token_type_ids=True
    )
    return dict(given)


def by_word(values: Tensor) -> list[float]:
    """Add up the tokens of the words of the document above; the start comes first."""
    ends = np.cumsum((1, *TOKENS))
    return [values[start:end].sum().item() for start, end in itertools.pairwise(ends)]


def normal(scores: list[float]) -> list[float]:
    return [score / sum(scores) for score in scores]


@pytest.fixture(params=["start", "mean"])
def untrained(request: pytest.FixtureRequest, encoders: dict[str, Path]) -> SupportModel:
    pooling: Pooling = request.param
    return support_of(encoders["bert"], pooling)


@contextmanager
def eager(classifier: Classifier) -> Iterator[None]:
    """Attend as the encoder's authors do, for as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier.body.config, "_attn_implementation", "eager")
        yield


@pytest.mark.parametrize("layer", [-1, -2])
def test_attention_is_what_the_head_reads(layer: int, untrained: SupportModel) -> None:
    with eager(untrained.classifier), torch.no_grad():
        output = untrained.classifier.encoder.model(**inputs(untrained, ASKED), output_attentions=True)
    rows = output.attentions[layer][0].mean(0)  # (tokens, tokens)
    read = rows[0] if untrained.classifier.encoder.pooling == "start" else rows.mean(0)
    [saliency] = Attention(untrained, layer=layer).score([ASKED])
    np.testing.assert_allclose(saliency.scores, normal(by_word(read)), atol=1e-7)
    assert saliency.scores.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", [Attention, AttentionGradient, AttentionShift])
@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_that_is_not_there_is_named(
    kind: type[Attention | AttentionGradient | AttentionShift], layer: int, support: SupportModel
) -> None:
    with pytest.raises(ValueError, match=rf"^layer must be between -2 and 1 for this encoder, got {layer}\.$"):
        kind(support, layer=layer).score([ASKED])


def probability(support: SupportModel, document: Document, embedded: Tensor, target: int) -> Tensor:
    """The probability of a label, when the words' embeddings are given."""
    given = inputs(support, document)
    classifier = support.classifier
    model = classifier.encoder.model
    out = model(inputs_embeds=embedded, attention_mask=given["attention_mask"], token_type_ids=given["token_type_ids"])
    pooled = out.last_hidden_state.mean(1) if classifier.encoder.pooling == "mean" else out.pooler_output
    return classifier.head(pooled).softmax(-1)[0, target]  # type: ignore[no-any-return]


def target_of(support: SupportModel, document: Document) -> int:
    [answer] = support.predict([document])
    return support.classifier.labels.index(answer.label)


def test_gradient_is_the_slope_along_each_piece(untrained: SupportModel) -> None:
    """Embedding times gradient is how fast the probability changes when the embedding is scaled."""
    target = target_of(untrained, ASKED)
    embedded = untrained.classifier.encoder.word_embeddings(inputs(untrained, ASKED)["input_ids"]).detach()
    slopes = torch.zeros(embedded.shape[1], dtype=torch.float64)
    for place in range(embedded.shape[1]):
        values = []
        for step in (1e-5, -1e-5):
            scaled = embedded.clone()
            scaled[0, place] *= 1 + step
            with torch.no_grad():
                values.append(probability(untrained, ASKED, scaled, target).item())
        slopes[place] = abs(values[0] - values[1]) / 2e-5
    [saliency] = Gradient(untrained).score([ASKED])
    np.testing.assert_allclose(saliency.scores, normal(by_word(slopes)), atol=1e-5)


def test_whole_embeddings_count_positions_and_types(untrained: SupportModel) -> None:
    model, target = untrained.classifier.encoder.model, target_of(untrained, ASKED)
    embedded: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[0]

    handle = model.get_submodule("embeddings").register_forward_hook(keep)
    try:
        words = untrained.classifier.encoder.word_embeddings(inputs(untrained, ASKED)["input_ids"])
        probability(untrained, ASKED, words, target).backward()  # type: ignore[no-untyped-call]
    finally:
        handle.remove()
    gradient = embedded[0].grad
    assert gradient is not None
    untrained.classifier.zero_grad(set_to_none=True)
    expected = normal(by_word((embedded[0] * gradient)[0].sum(-1).abs().detach()))
    kinds: tuple[Literal["words", "whole"], ...] = ("whole", "words")
    [whole], [own] = (Gradient(untrained, embeddings=kind).score([ASKED]) for kind in kinds)
    np.testing.assert_allclose(whole.scores, expected, atol=1e-9)
    assert np.abs(whole.scores - own.scores).max() > 0.01


@pytest.mark.parametrize("kind", [AttentionGradient, AttentionShift])
@pytest.mark.parametrize("layer", [-1, -2, "all"])
def test_scores_are_slopes_along_each_weight(
    kind: type[AttentionGradient] | type[AttentionShift], layer: int | Literal["all"], untrained: SupportModel
) -> None:
    """A step along a column, a factor of its weights or, for shifts, added before the softmax, changes the answer."""
    classifier = untrained.classifier
    [saliency] = kind(untrained, layer=layer).score([ASKED])
    batch = classifier.collate(classifier.tokenizer([Text(ASKED.words, ASKED.query)]))
    target = target_of(untrained, ASKED)
    layers = classifier.encoder.layers if layer == "all" else [classifier.encoder.layers[layer]]
    heads, n_tokens = 2, len(batch.ids[0])

    def changed(word: int, step: float) -> float:
        more = step * (batch.word_of[0] == word).double()
        scale, shift = (1.0 + more, 0.0) if kind is AttentionGradient else (1.0, more)

        def attend(module: nn.Module, arguments: tuple[Tensor, ...], _output: object) -> tuple[Tensor, None]:
            hidden = arguments[0]
            query, key, value = (
                module.get_submodule(name)(hidden).view(1, n_tokens, heads, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + shift).softmax(-1)
            return ((weights * scale) @ value).transpose(1, 2).reshape(1, n_tokens, -1), None

        with ExitStack() as hooks, torch.no_grad():
            for each in layers:
                hooks.enter_context(each.get_submodule("attention.self").register_forward_hook(attend))
            return float(classifier(batch).logits.softmax(-1)[0, target])

    n_read = 1 if classifier.encoder.pooling == "start" else n_tokens
    expected = [(changed(word, 1e-5) - changed(word, -1e-5)) / 2e-5 / heads / n_read for word in range(4)]
    np.testing.assert_allclose(saliency.scores, expected, rtol=1e-4, atol=1e-12)


def all_layers_by_hand(support: SupportModel, document: Document) -> list[float]:
    """Compute all attention as the encoder's authors do, differentiate it, and add up what each word gets."""
    classifier = support.classifier
    batch = classifier.collate(classifier.tokenizer([Text(document.words, document.query)]))
    parts = {"attention_mask": batch.mask, "position_ids": batch.positions, "token_type_ids": batch.types}
    accepted = signature(classifier.body.forward).parameters.keys()
    with eager(classifier), torch.enable_grad():
        given = {name: value for name, value in parts.items() if name in accepted}
        output = classifier.body(batch.ids, output_attentions=True, **given)
        logits = classifier.head(classifier._pool(output.last_hidden_state, batch.mask))
        gradients = torch.autograd.grad(logits.softmax(-1).max(), output.attentions)
    total = torch.zeros(batch.ids.shape, dtype=torch.float64)
    for weights, gradient in zip(output.attentions, gradients, strict=True):
        products = (weights * gradient).mean(1)  # (1, tokens, tokens)
        total += products.sum(1) if classifier.encoder.pooling == "start" else products.mean(1)
    found: list[float] = sum_by_word(total, batch)[0].tolist()
    return found


@pytest.mark.parametrize("layers", [0, 1, "all"])
@pytest.mark.parametrize("pooling", ["start", "mean"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_layers_say_together_what_attention_in_the_open_says(
    architecture: str, pooling: Pooling, layers: object, encoders: dict[str, Path]
) -> None:
    support = support_of(encoders[architecture], pooling, layers=layers)
    support.classifier.requires_grad_(True)  # so that what is computed by hand has a gradient everywhere
    items = documents(5)
    expected = [all_layers_by_hand(support, document) for document in items]
    for found, hand in zip(AttentionGradient(support, "all").score(items), expected, strict=True):
        np.testing.assert_allclose(found.scores, hand, rtol=1e-6, atol=1e-12)


def test_integrated_gradients_add_up_to_what_the_words_add(support: SupportModel, toy: Splits) -> None:
    items, classifier = [example.document for example in toy.test[:6]], support.classifier
    tokenizer, added = classifier.encoder.tokenizer, list[float]()
    for item in items:  # each word is one token
        ids = tokenizer(" ".join(item.words), return_tensors="pt").input_ids
        masked = ids.clone()
        masked[0, 1:-1] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = classifier.head(classifier.encoder.model(torch.cat([ids, masked])).pooler_output)
        full, none = logits.softmax(-1)[:, target_of(support, item)].tolist()
        added.append(full - none)
    few, many = (
        np.abs(
            [saliency.scores.sum() for saliency in IntegratedGradients(support, steps=steps).score(items)]
            - np.array(added)
        )
        for steps in (2, 200)
    )
    assert np.abs(added).min() > 0.01
    assert many.max() < 0.001
    assert few.max() > 10 * many.max()


def test_integrated_gradients_with_16_bits_differ_by_rounding_only(support: SupportModel, toy: Splits) -> None:
    items, classifier = [example.document for example in toy.test[:6]], support.classifier
    before = [id(weight) for weight in classifier.parameters()]
    exact = IntegratedGradients(support, steps=5).score(items)
    with inference_precision(classifier, TrainConfig(engine=EngineConfig(precision="bf16"))):
        rounded = IntegratedGradients(support, steps=5).score(items)
    for one, other in zip(exact, rounded, strict=True):
        assert not np.array_equal(one.scores, other.scores)
        np.testing.assert_allclose(other.scores, one.scores, atol=0.1 * np.abs(one.scores).max())
    assert [id(weight) for weight in classifier.parameters()] == before


def test_occlusion_by_hand(untrained: SupportModel) -> None:
    target = target_of(untrained, ASKED)
    texts = [Text(ASKED.words, ASKED.query)]
    texts += [Text(ASKED.words[:place] + ASKED.words[place + 1 :], ASKED.query) for place in range(4)]
    full, *without = [float(untrained.classifier.probabilities([text])[0, target]) for text in texts]
    [saliency] = Occlusion(untrained).score([ASKED])
    np.testing.assert_allclose(saliency.scores, [full - each for each in without], atol=1e-9)


@pytest.mark.parametrize("words", [("good",), ("a", "good", "film", "was", "it")])
def test_shapley_values_sum_to_what_all_words_add(words: tuple[str, ...], pair_support: SupportModel) -> None:
    document = Document.from_words(words, ("praise",))
    target = target_of(pair_support, document)
    texts = [Text(words, ("praise",)), Text((), ("praise",))]
    full, none = pair_support.classifier.probabilities(texts)[:, target]
    [saliency] = KernelShap(pair_support, samples=100).score([document])
    assert saliency.scores.sum() == pytest.approx(full - none, abs=1e-4)


@pytest.mark.parametrize("name", ["kernel_shap", "lime"])
def test_scores_of_one_and_of_two_words_by_hand(name: str, support: SupportModel) -> None:
    one, two = Document.from_words(("good",)), Document.from_words(("good", "film"))
    table = support.classifier.probabilities([Text(words) for words in (("good", "film"), ("good",), ("film",), ())])
    [alone, together] = make_scorer(name, support, {"samples": 200}).score([one, two])
    _, first, _, none = table[:, target_of(support, one)]
    assert alone.scores.tolist() == pytest.approx([first - none], abs=1e-7)  # nothing is sampled
    if name == "kernel_shap":
        both, first, second, none = table[:, target_of(support, two)]
        expected = [(first - none + both - second) / 2, (second - none + both - first) / 2]
        np.testing.assert_allclose(together.scores, expected, atol=0.01)  # as good as the draw of samples


@pytest.mark.parametrize(
    "name", ["attention_gradient", "attention_shift", "integrated_gradients", "occlusion", "kernel_shap", "lime"]
)
def test_a_word_that_speaks_against_the_answer_scores_below_zero(name: str, support: SupportModel) -> None:
    document = Document.from_words(("good", "great", "bad", "good", "great"))
    [answer] = support.predict([document])
    [saliency] = make_scorer(name, support, {}).score([document])
    assert answer.label == saliency.target
    against = [2] if answer.label == "pos" else [0, 1, 3, 4]
    assert saliency.scores[against].mean() < 0
