"""Scores against the same numbers computed in another way."""

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fresh.attribution.attention import Attention
from fresh.attribution.attention_gradient import AttentionGradient, AttentionShift
from fresh.attribution.gradient import Embeddings, Gradient
from fresh.attribution.integrated_gradients import IntegratedGradients
from fresh.attribution.occlusion import Occlusion
from fresh.attribution.registry import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.attribution.surrogate import KernelShap, Lime
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.nn.encoder import Pooling
from fresh.nn.tokenizer import Text
from shared_scorers import support_of

ASKED = Document.from_words(("a", "good", "unheard-of", "film"), ("praise",), "asked")
PIECES = (1, 1, 9, 1)  # u ##n ##h ##e ##a ##r ##d - of


def inputs(support: SupportModel, document: Document) -> dict[str, Tensor]:
    """What BERT's own tokenizer makes of a document and its query."""
    tokenizer = support.classifier.encoder.tokenizer
    given = tokenizer(
        " ".join(document.words), " ".join(document.query), return_tensors="pt", return_token_type_ids=True
    )
    return dict(given)


def by_word(values: Tensor) -> list[float]:
    """Add up the pieces of the words of the document above; the start comes first."""
    ends = np.cumsum((1, *PIECES))
    return [values[start:end].sum().item() for start, end in itertools.pairwise(ends)]


def normal(scores: list[float]) -> list[float]:
    return [score / sum(scores) for score in scores]


@pytest.fixture(params=["start", "mean"])
def untrained(request: pytest.FixtureRequest, encoders: dict[str, Path]) -> SupportModel:
    pooling: Pooling = request.param
    return support_of(encoders["bert"], pooling)


def eager_attentions(support: SupportModel, document: Document) -> tuple[Tensor, ...]:
    model = support.classifier.encoder.model
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            attentions: tuple[Tensor, ...] = model(**inputs(support, document), output_attentions=True).attentions
    finally:
        model.set_attn_implementation("sdpa")
    return attentions


@pytest.mark.parametrize("layer", [-1, -2])
def test_attention_is_what_the_head_reads(layer: int, untrained: SupportModel) -> None:
    heads = eager_attentions(untrained, ASKED)[layer][0]  # (heads, pieces, pieces)
    rows = heads.mean(0)
    read = rows[0] if untrained.classifier.encoder.pooling == "start" else rows.mean(0)
    [saliency] = Attention(untrained, layer=layer).score([ASKED])
    np.testing.assert_allclose(saliency.scores, normal(by_word(read)), atol=1e-7)
    assert saliency.scores.sum() == pytest.approx(1, abs=1e-12)


def test_the_layers_of_attention_differ(untrained: SupportModel) -> None:
    [last], [before] = (Attention(untrained, layer=layer).score([ASKED]) for layer in (-1, -2))
    assert np.abs(last.scores - before.scores).max() > 1e-5


@pytest.mark.parametrize("kind", [Attention, AttentionGradient, AttentionShift])
@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_that_is_not_there_is_named(
    kind: type[Attention | AttentionGradient | AttentionShift], layer: int, support: SupportModel
) -> None:
    with pytest.raises(ValueError, match=rf"^layer must lie between -2 and 1 for this encoder, got {layer}\.$"):
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
    kinds: tuple[Embeddings, ...] = ("whole", "words")
    [whole], [own] = (Gradient(untrained, embeddings=kind).score([ASKED]) for kind in kinds)
    np.testing.assert_allclose(whole.scores, expected, atol=1e-9)
    assert np.abs(whole.scores - own.scores).max() > 0.01


@pytest.mark.parametrize("kind", [AttentionGradient, AttentionShift])
@pytest.mark.parametrize("layer", [-1, -2, "all"])
def test_scores_are_slopes_along_each_look(
    kind: type[AttentionGradient] | type[AttentionShift], layer: int | Literal["all"], untrained: SupportModel
) -> None:
    """A step along a column, a factor of its weights or, for shifts, added before the softmax, changes the answer."""
    classifier = untrained.classifier
    [saliency] = kind(untrained, layer=layer).score([ASKED])
    batch = classifier.collate(classifier.words([Text(ASKED.words, ASKED.query)]))
    target = target_of(untrained, ASKED)
    layers = classifier.encoder.layers if layer == "all" else [classifier.encoder.layers[layer]]
    heads, n_pieces = 2, len(batch.ids[0])

    def changed(word: int, step: float) -> float:
        more = step * (batch.word_of[0] == word).double()
        scale, shift = (1.0 + more, 0.0) if kind is AttentionGradient else (1.0, more)

        def look(module: nn.Module, arguments: tuple[Tensor, ...], _output: object) -> tuple[Tensor, None]:
            hidden = arguments[0]
            query, key, value = (
                module.get_submodule(name)(hidden).view(1, n_pieces, heads, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + shift).softmax(-1)
            return ((weights * scale) @ value).transpose(1, 2).reshape(1, n_pieces, -1), None

        with ExitStack() as hooks, torch.no_grad():
            for each in layers:
                hooks.enter_context(each.get_submodule("attention.self").register_forward_hook(look))
            return float(classifier.show_attention(batch).logits.softmax(-1)[0, target])

    n_read = 1 if classifier.encoder.pooling == "start" else n_pieces
    expected = [(changed(word, 1e-5) - changed(word, -1e-5)) / 2e-5 / heads / n_read for word in range(4)]
    np.testing.assert_allclose(saliency.scores, expected, rtol=1e-4, atol=1e-12)


def test_integrated_gradients_add_up_to_what_the_words_add(support: SupportModel, toy: Splits) -> None:
    items = [example.document for example in toy.test[:6]]
    added = np.array([added_to_masks(support, item) for item in items])
    few, many = (
        np.abs([saliency.scores.sum() for saliency in IntegratedGradients(support, steps=steps).score(items)] - added)
        for steps in (2, 200)
    )
    assert np.abs(added).min() > 0.01
    assert many.max() < 0.001
    assert few.max() > 10 * many.max()


def added_to_masks(support: SupportModel, document: Document) -> float:
    """What the words (each of them one piece) add to the predicted label's probability, compared with masks."""
    classifier, target = support.classifier, target_of(support, document)
    ids = classifier.encoder.tokenizer(" ".join(document.words), return_tensors="pt").input_ids
    masked = ids.clone()
    masked[0, 1:-1] = classifier.encoder.tokenizer.mask_token_id
    with torch.no_grad():
        logits = classifier.head(classifier.encoder.model(torch.cat([ids, masked])).pooler_output)
    full, none = logits.softmax(-1)[:, target].tolist()
    return float(full - none)


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


def test_shapley_values_of_two_words_by_hand(support: SupportModel) -> None:
    document = Document.from_words(("good", "film"))
    target = target_of(support, document)
    table = support.classifier.probabilities([Text(words) for words in (("good", "film"), ("good",), ("film",), ())])
    both, first, second, none = table[:, target]
    [saliency] = KernelShap(support, samples=200).score([document])
    expected = [(first - none + both - second) / 2, (second - none + both - first) / 2]
    np.testing.assert_allclose(saliency.scores, expected, atol=0.01)  # as good as the draw of samples


def test_lime_gives_one_word_all_that_changes(support: SupportModel) -> None:
    document = Document.from_words(("good",))
    target = target_of(support, document)
    full, none = support.classifier.probabilities([Text(("good",)), Text(())])[:, target]
    [saliency] = Lime(support).score([document])
    assert saliency.scores.tolist() == pytest.approx([full - none], abs=1e-12)


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
