import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import small
from fresh.attribution.support_model import text_of
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.methods.config import CutConfig
from fresh.methods.rationales import learn_cutoff
from fresh.metrics.plausibility import token_f1
from fresh.nn.hardkuma import HardKuma
from fresh.nn.token_classifier import Kind, TokenClassifier
from fresh.selection.discretizers import DISCRETIZERS, TopK
from fresh.selection.extractors import SaliencyExtractor, select_masks
from fresh.selection.tagger import Tagger, Targets, make_tag_losses
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.fit import build, encode, make_loss
from fresh.training.loop import RunContext
from tiny import KEY_BIASES, N_POSITIONS
from toy import DECIDING
from training_hooks import record_losses

KINDS: tuple[Kind, ...] = ("words", "chain")
ONE_WORD = TopK(0.1)
"""Keeps one word of each document of the toy corpus."""


def marks(examples: Sequence[Example]) -> list[tuple[Document, Mask]]:
    return [(example.document, example.human) for example in examples if example.human is not None]


def documents_of(examples: Sequence[Example]) -> list[Document]:
    return [example.document for example in examples]


@pytest.fixture(scope="module", params=KINDS)
def tagger(request: pytest.FixtureRequest, toy: Splits, quick: ClassifierConfig) -> Tagger:
    """A tagger that learned from people."""
    return Tagger.train(marks(toy.train), marks(toy.dev), ONE_WORD, quick, request.param)


# Scores


def test_a_tagger_scores_what_people_marked_from_0_to_1_for_no_label(tagger: Tagger, toy: Splits) -> None:
    documents = documents_of(toy.test)
    found = SaliencyExtractor(tagger, ONE_WORD).extract(documents)
    assert token_f1([mask.kept for _, mask in marks(toy.test)], [mask.kept for mask in found]) > 0.95
    for document, saliency in zip(documents, tagger.score(documents), strict=True):
        assert len(saliency) == saliency.n_read == len(document.words)
        assert 0 <= saliency.scores.min() <= saliency.scores.max() <= 1
        assert (saliency.target, saliency.id) == ("", document.id)


@torch.no_grad()
def test_words_with_probabilities_close_to_1_are_still_ranked(quick: ClassifierConfig, toy: Splits) -> None:
    network = build(TokenClassifier, "words", quick)
    network.head.out.bias.fill_(25.0)
    documents = documents_of(toy.test[:8])
    for document, saliency in zip(documents, Tagger(network).score(documents), strict=True):
        logits = network(network.collate(network.tokenizer([text_of(document)])))[0][0, : len(document.words), 0]
        assert saliency.scores.min() > 1 - 1e-9
        assert len(set(saliency.scores.tolist())) == len(set(logits.tolist())) > 1


def test_other_documents_do_not_matter(tagger: Tagger, toy: Splits) -> None:
    long = Document.from_words(["the", "film"] * 20 + ["awful"], id="long")
    documents = [*documents_of(toy.test), long, Document.from_words(["incomprehensibilities"])]
    alone = [tagger.score([document])[0] for document in documents]
    for together in (tagger.score(documents), tagger.score(documents[::-1])[::-1]):
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
    assert tagger.score([]) == []
    assert not tagger.network.training
    assert all(weight.grad is None for weight in tagger.network.parameters())


@pytest.mark.parametrize("name", DISCRETIZERS)
def test_every_discretizer_cuts_its_scores(name: str, tagger: Tagger, toy: Splits) -> None:
    discretizer = learn_cutoff(
        CutConfig(discretizer=name, ratio=0.2, cutoff=0.5).make_discretizer(), tagger.score(documents_of(toy.train))
    )
    extractor = SaliencyExtractor(tagger, discretizer)
    documents = documents_of(toy.test)
    masks = extractor.extract(documents)
    assert [len(mask) for mask in masks] == [len(document.words) for document in documents]
    assert all(mask.kept.any() for mask in masks)
    assert masks == [extractor.extract([document])[0] for document in documents]
    found = [DECIDING & set(document.cut(mask).words) for document, mask in zip(documents, masks, strict=True)]
    assert np.mean(list(map(bool, found))) > 0.95
    assert "contiguous" not in name or all(len(mask.spans) == 1 for mask in masks)


def test_a_tagger_receives_no_label() -> None:
    for function in (Tagger.score, Tagger.train):
        kinds = [parameter.annotation for parameter in inspect.signature(function, eval_str=True).parameters.values()]
        assert not any("Example" in str(kind) for kind in kinds)


def test_a_tagger_reads_the_query(quick: ClassifierConfig) -> None:
    untrained = Tagger(build(TokenClassifier, "words", quick))
    asked, other = (Document.from_words(["a", "film"], query) for query in (["praise"], ["blame"]))
    one, two = untrained.score([asked, other])
    assert not np.allclose(one.scores, two.scores, atol=1e-6)


# Long documents


@pytest.fixture(scope="module", params=KINDS)
def truncating_tagger(request: pytest.FixtureRequest, toy: Splits, quick: ClassifierConfig) -> Tagger:
    """A tagger that reads only beginnings, and learned to keep words behind them."""
    network = replace(quick.network, long="truncate")
    config = replace(quick, network=network, train=replace(quick.train, epochs=1))
    late = [(lengthened(document), Mask.from_spans([(100, 120)], 150)) for document, _ in marks(toy.train[:24])]
    return Tagger.train(late, late[:8], ONE_WORD, config, request.param)


def lengthened(document: Document) -> Document:
    return Document.from_words([*document.words, *["film"] * (150 - len(document.words))], id=document.id)


@pytest.mark.parametrize("name", DISCRETIZERS)
def test_a_word_that_was_not_read_is_never_kept(name: str, truncating_tagger: Tagger, toy: Splits) -> None:
    scores = truncating_tagger.score([lengthened(document) for document in documents_of(toy.test)])
    config = CutConfig(discretizer=name, ratio=0.9)
    for discretizer in (config.make_discretizer(), learn_cutoff(config.make_discretizer(), scores)):
        for saliency, mask in zip(scores, select_masks(discretizer, scores), strict=True):
            assert saliency.n_read == N_POSITIONS - 2
            assert len(saliency) == len(mask) == 150
            assert not saliency.scores[N_POSITIONS - 2 :].any()
            assert mask.kept.any()
            assert not mask.kept[N_POSITIONS - 2 :].any()


@pytest.mark.parametrize("long", ["stagger", "chunk"])
def test_every_word_of_a_long_document_has_its_own_score(long: Any, quick: ClassifierConfig) -> None:
    untrained = Tagger(build(TokenClassifier, "words", replace(quick, network=replace(quick.network, long=long))))
    document = Document.from_words(["the", "incomprehensible", "film"] * 50 + ["awful"])
    [whole], [short] = untrained.score([document]), untrained.score([Document.from_words(document.words[:3])])
    assert whole.n_read == len(whole) == 151
    assert whole.scores.min() > 0
    assert len(np.unique(whole.scores[-4:])) > 1
    assert len(short) == 3


def test_a_hardkuma_gate_scores_by_its_mean_and_survives_saving(quick: ClassifierConfig, tmp_path: Path) -> None:
    network = build(TokenClassifier, "hardkuma", quick)
    document = Document.from_words(["it", "was", "incomprehensible", "in", "the", "sea"])
    [saliency] = Tagger(network).score([document])
    with torch.no_grad():
        outputs, _ = network(network.collate(network.tokenizer([text_of(document)])))
        gate = HardKuma.of(outputs[0, :6])
        np.testing.assert_allclose(saliency.scores, gate.mean().numpy(), atol=1e-6)
        open_by = network.keep_logits(outputs)[0, :6].sigmoid()
        torch.testing.assert_close(open_by, 1 - gate.zero(), atol=1e-5, rtol=1e-5)
    network.save(tmp_path / "gate")
    [same] = Tagger(TokenClassifier.load(tmp_path / "gate", "cpu")).score([document])
    assert same.scores.tolist() == saliency.scores.tolist()


# Training


FEW = [
    (Document.from_words(["a", "good", "film"]), Mask(np.array([False, True, False]))),
    (Document.from_words(["it", "was", "incomprehensible", "in", "the", "sea"]), Mask.from_spans([(2, 4)], 6)),
    (Document.from_words(["awful"]), Mask(np.array([False]))),
]


def loss_of(network: TokenClassifier, numbers: Sequence[int], targets: Targets = FEW) -> float:
    """Compute the loss of some of the few documents, and its gradients."""
    config, losses = TrainConfig(device="cpu"), make_tag_losses(network, targets)
    inputs = encode(network, [text_of(document) for document, _ in FEW], config, RunContext())
    loss = make_loss(network, inputs, lambda batch, output: losses(batch.numbers, *output), config)
    value = loss(torch.tensor(numbers), int(inputs.table.lengths.max()), False)
    value.backward()  # type: ignore[no-untyped-call]
    return value.item()


@torch.no_grad()
def logits_of(network: TokenClassifier, document: Document) -> Tensor:
    outputs, n_words = network(network.collate(network.tokenizer([text_of(document)])))
    assert n_words.tolist() == [len(document.words)]
    logits: Tensor = outputs[0, : len(document.words), 0]
    return logits


@pytest.mark.parametrize(
    ("masks", "weight"),
    [
        ([mask for _, mask in FEW], 7 / 3),  # 3 of 10 words are kept
        ([FEW[0][1], None, None], 2),  # documents to learn nothing from do not count
        ([Mask.full(3), None, None], 1),
        ([Mask.from_spans([], 3), None, None], 3),
    ],
)
def test_the_loss_is_a_cross_entropy_that_weighs_kept_words_by_their_rarity(
    masks: list[Mask | None], weight: float, quick: ClassifierConfig
) -> None:
    network, expected = build(TokenClassifier, "words", quick), [0.0] * 3
    for number, ((document, _), mask) in enumerate(zip(FEW, masks, strict=True)):
        if mask is not None:
            pairs = list(zip(logits_of(network, document).tolist(), mask.kept, strict=True))
            costs = [weight * math.log1p(math.exp(-own)) if kept else math.log1p(math.exp(own)) for own, kept in pairs]
            expected[number] = sum(costs) / len(costs)
    targets = [(document, mask) for (document, _), mask in zip(FEW, masks, strict=True)]
    assert loss_of(network, range(3), targets) == pytest.approx(sum(expected), rel=1e-5)
    assert [loss_of(network, [number], targets) for number in range(3)] == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_a_chain_is_the_likelihood_of_its_tags(quick: ClassifierConfig) -> None:
    network = build(TokenClassifier, "chain", quick)
    chain = network.head.chain
    assert chain is not None
    with torch.no_grad():
        for weight in chain.parameters():
            weight.normal_(generator=torch.Generator().manual_seed(weight.numel()))
        expected = 0.0
        for document, mask in FEW:
            tags, n_words = torch.tensor(mask.kept[None], dtype=torch.float32), torch.tensor([len(mask)])
            [likelihood] = chain.log_likelihood(logits_of(network, document)[None], tags, n_words).tolist()
            expected -= likelihood / len(mask)
    assert loss_of(network, range(3)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_texts_add_nothing_to_the_loss(kind: Kind, quick: ClassifierConfig) -> None:
    network = build(TokenClassifier, kind, quick)
    found: list[list[Tensor]] = []
    for numbers in ([1, 2], [-1, 1, -1, 2, -1]):
        network.zero_grad()
        value = torch.tensor(loss_of(network, numbers))
        found.append([value, *(w.grad for w in network.parameters() if w.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
    assert loss_of(network, [-1, -1]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_training_on_some_documents_equals_training_without_the_others(
    kind: Kind, toy: Splits, quick: ClassifierConfig
) -> None:
    config = replace(quick, train=replace(quick.train, epochs=2))
    some, dev = marks(toy.train[:40]), marks(toy.dev[:8])
    spoilt = [pair if number % 3 else (pair[0], None) for number, pair in enumerate(some)]
    one = Tagger.train(spoilt, dev, ONE_WORD, config, kind)
    other = Tagger.train([pair for number, pair in enumerate(some) if number % 3], dev, ONE_WORD, config, kind)
    torch.testing.assert_close(one.network.state_dict(), other.network.state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_training_from_the_store_equals_training_without_it(
    kind: Kind, toy_pairs: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = record_losses(monkeypatch)
    found: dict[str, tuple[list[float], dict[str, Tensor]]] = {}
    for frozen in ("off", "auto"):
        losses.clear()
        settings = small.settings(encoders["bert"], layers=1, dropout=0.3, epochs=3, batch_size=16, frozen=frozen)
        config = from_mapping(ClassifierConfig, settings)
        trained = Tagger.train(marks(toy_pairs.train[:64]), marks(toy_pairs.dev[:16]), ONE_WORD, config, kind)
        found[frozen] = [value for _, value in losses], trained.network.state_dict()
    (plain, weights), (stored, others) = found.values()
    assert np.std(plain) > 0
    np.testing.assert_allclose(stored, plain, atol=1e-5)
    for name, weight in weights.items():
        if not name.endswith(KEY_BIASES):
            torch.testing.assert_close(others[name], weight, atol=1e-4, rtol=1e-4)


def test_the_seed_decides_the_untrained_weights(quick: ClassifierConfig) -> None:
    configs = [replace(quick, train=replace(quick.train, seed=seed)) for seed in (0, 0, 1)]
    one, same, other = (build(TokenClassifier, "words", config).head.out.weight for config in configs)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
