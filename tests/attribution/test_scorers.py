"""The contract of all scorers, over every name there is."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from fresh.attribution import SCORERS, make_scorer, needs_support, scorer_settings, scorer_to_dict, with_target
from fresh.attribution.config import ScorerConfig
from fresh.attribution.perturbation import Occlusion, _group
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.errors import MissingExtraError
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Pooling
from fresh.nn.tokenizer import LongPolicy
from fresh.selection.discretizers import TopK
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext
from networks import FEW, assert_same, documents, support_of, trace
from tiny import ARCHITECTURES, WORDS
from toy import DECIDING

SLOW = ("lime", "kernel_shap")
SIGNED = [name for name in SCORERS if "evidence" in scorer_settings(name)]


Network = tuple[str, Pooling]
EVERY_NETWORK: list[Network] = [(name, pooling) for name in ARCHITECTURES for pooling in get_args(Pooling)]


@pytest.fixture(scope="module")
def supports(encoders: dict[str, Path]) -> dict[Network, SupportModel]:
    return {(name, pooling): support_of(encoders[name], pooling) for name, pooling in EVERY_NETWORK}


@pytest.mark.parametrize(
    ("name", "network", "evidence"),
    [
        *((name, one, "for") for name in SCORERS for one in EVERY_NETWORK[: 1 if name in SLOW else None]),
        *((name, EVERY_NETWORK[0], "both") for name in SIGNED),
    ],
)
def test_every_word_has_one_score_whatever_its_neighbours_and_their_order(
    name: str, network: Network, evidence: str, supports: dict[Network, SupportModel]
) -> None:
    support, items = supports[network], documents(6)
    scorer = make_scorer(name, support, FEW | {"evidence": evidence})
    found = scorer.score(items)
    assert [len(saliency) for saliency in found] == [len(document.words) for document in items]
    assert all(np.isfinite(saliency.scores).all() for saliency in found)
    assert any(np.ptp(saliency.scores) > 0 for saliency in found)
    assert [saliency.id for saliency in found] == [document.id for document in items]
    predicted = [prediction.label for prediction in support.predict(items)]
    assert [saliency.target for saliency in found] == (predicted if needs_support(name) else [""] * 6)
    alone = [saliency for document in items for saliency in scorer.score([document])]
    assert_same(found, alone, 1e-6)
    assert_same(scorer.score(items[::-1])[::-1], alone, 1e-6)
    assert scorer.score([]) == []


@pytest.mark.parametrize("name", [name for name in SCORERS if needs_support(name)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scoring_leaves_no_trace_not_even_when_it_fails(
    name: str, architecture: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    support = support_of(encoders[architecture], layers=1)
    items = documents(1, longest=4)
    scorer = make_scorer(name, support, FEW | {"samples": 8})
    scorer.score(items)  # hooks that do nothing by themselves are installed once, ours as transformers' own
    before = trace(support.classifier)
    scorer.score(items)
    assert trace(support.classifier) == before

    def broken(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(support.classifier.encoder.layers[0], "forward", broken)
    with pytest.raises(RuntimeError, match="broken"):
        scorer.score(items)
    assert trace(support.classifier) == before


@pytest.mark.parametrize("name", [name for name in SCORERS if needs_support(name)])
def test_nothing_is_remembered_for_weights_while_words_are_scored(name: str, encoders: dict[str, Path]) -> None:
    support = support_of(encoders["bert"], layers="all")
    weights = list(support.classifier.parameters())
    seen: list[bool] = []
    support.classifier.encoder.layers[0].register_forward_hook(
        lambda *_: seen.append(torch.is_grad_enabled() and any(weight.requires_grad for weight in weights))
    )
    make_scorer(name, support, FEW | {"samples": 8}).score(documents(2, longest=4))
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("name", [name for name in SCORERS if needs_support(name)])
def test_every_scorer_finds_the_word_that_decides(name: str, support: SupportModel, toy: Splits) -> None:
    items = [example.document for example in toy.test][: 12 if name in SLOW else None]
    masks = TopK(0.2).select(make_scorer(name, support, {"samples": 60}).score(items))
    found = [not DECIDING.isdisjoint(item.cut(mask).words) for item, mask in zip(items, masks, strict=True)]
    assert np.mean(found) >= 0.75  # by chance, less than 0.3


@pytest.mark.parametrize("name", [name for name in SCORERS if needs_support(name)])
def test_words_that_were_not_read_come_last(name: str, encoders: dict[str, Path]) -> None:
    support = support_of(encoders["bert"], long="truncate")
    document = Document.from_words(WORDS * 5)  # 100 words, of which 62 are read
    [saliency] = make_scorer(name, support, FEW | {"samples": 80}).score([document])
    read, unread = saliency.scores[:62], saliency.scores[62:]
    assert len(set(unread.tolist())) == 1
    assert unread[0] == min(0.0, read.min())
    assert np.ptp(read) > 0
    [mask] = TopK(0.5).select([saliency])
    assert not mask.kept[62:].any()


@pytest.mark.parametrize("name", SCORERS)
def test_signed_scorers_and_no_others_take_evidence(name: str, supports: dict[Network, SupportModel]) -> None:
    found = make_scorer(name, supports[EVERY_NETWORK[0]], FEW).score(documents(6))
    assert (min(saliency.scores.min() for saliency in found) < 0) == (name in SIGNED)


@pytest.mark.parametrize("long", ["stagger", "truncate", "chunk"])
@pytest.mark.parametrize("name", SIGNED)
def test_evidence_both_is_the_size_of_the_score_of_each_word(
    name: str, long: LongPolicy, encoders: dict[str, Path]
) -> None:
    support = support_of(encoders["bert"], long=long)
    # One word, words of several tokens, and 38 words beyond a text that is truncated.
    items = [Document.from_words(("good",)), *documents(4), Document.from_words(WORDS * 5)]
    signed, both = (make_scorer(name, support, FEW | {"evidence": evidence}) for evidence in ("for", "both"))
    assert scorer_to_dict(both) == scorer_to_dict(signed) | {"evidence": "both"}
    found = both.score(items)
    for one, other in zip(signed.score(items), found, strict=True):
        expected = np.abs(one.scores)
        expected[one.n_read :] = 0  # words that were not read come last
        np.testing.assert_array_equal(other.scores, expected)
        assert (one.target, one.n_read) == (other.target, other.n_read)
    # What makes one of two labels more probable makes the other less so.
    targeted = [with_target(both, label).score(items) for label in support.classifier.labels]  # type: ignore[arg-type]
    for saliencies in zip(found[:5], *targeted, strict=False):
        # captum regresses in single precision.
        tolerance = 0.01 * saliencies[0].scores.max() if name in SLOW else 1e-9
        for saliency in saliencies:
            np.testing.assert_allclose(saliency.scores, saliencies[0].scores, atol=tolerance)


def test_random_scores_are_those_of_the_document_and_the_seed() -> None:
    first, second = Document.from_words(["good", "film"], id="1"), Document.from_words(["bad", "film"], id="2")
    scores = [found.scores.tolist() for found in make_scorer("random", None, {}).score([first, second, first])]
    [other] = make_scorer("random", None, {"seed": 1}).score([first])
    assert scores[0] == scores[2]
    values = {*scores[0], *scores[1], *other.scores}
    assert len(values) == 6
    assert 0 <= min(values) <= max(values) < 1


@pytest.mark.parametrize("name", SLOW)
def test_sampling_depends_on_the_seed_alone(name: str, support: SupportModel) -> None:
    items = documents(2)

    def score(seed: int) -> list[list[float]]:
        return [
            found.scores.tolist() for found in make_scorer(name, support, {"samples": 20, "seed": seed}).score(items)
        ]

    assert score(0) == score(0)
    assert score(0) != score(1)


@pytest.mark.parametrize("name", SLOW)
def test_a_missing_extra_is_named(name: str, support: SupportModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "captum.attr", None)
    with pytest.raises(MissingExtraError, match=rf"^The scorer {name} needs captum\. .*'fresh-rationales\[captum\]'$"):
        make_scorer(name, support, {}).score(documents(1))


def test_a_scorer_takes_the_settings_that_concern_it(support: SupportModel) -> None:
    settings = {"embeddings": "whole", "layer": -2, "steps": 7, "samples": 9, "seed": 4, "evidence": "both"}
    written = {name: scorer_to_dict(make_scorer(name, support, settings)) for name in SCORERS}
    assert written == {
        "attention": {"name": "attention", "layer": -2},
        "gradient": {"name": "gradient", "embeddings": "whole"},
        "attention_gradient": {"name": "attention_gradient", "layer": -2, "evidence": "both"},
        "attention_shift": {"name": "attention_shift", "layer": -2, "evidence": "both"},
        "integrated_gradients": {"name": "integrated_gradients", "steps": 7, "evidence": "both"},
        "occlusion": {"name": "occlusion", "evidence": "both"},
        "lime": {"name": "lime", "samples": 9, "seed": 4, "evidence": "both"},
        "kernel_shap": {"name": "kernel_shap", "samples": 9, "seed": 4, "evidence": "both"},
        "random": {"name": "random", "seed": 4},
    }


def test_a_scorer_by_a_wrong_name_gets_its_neighbour() -> None:
    with pytest.raises(ValueError, match=r"^gradiant is not a scorer\. Did you mean gradient\?$"):
        make_scorer("gradiant", None, {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("integrated_gradients", {"steps": 10**9}, "steps must be at most 1000, got 1000000000."),
        ("lime", {"samples": 10_001}, "samples must be at most 10000, got 10001."),
        ("kernel_shap", {"samples": 0}, "samples must be at least 1, got 0."),
    ],
)
def test_a_document_is_not_read_for_ever(name: str, value: dict[str, int], message: str, support: SupportModel) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ScorerConfig(**value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_scorer(name, support, value)


def test_equal_words_side_by_side_tie_when_each_is_left_out(support: SupportModel) -> None:
    generator = np.random.default_rng(0)
    for _ in range(40):
        drawn = generator.choice(WORDS, generator.integers(3, 40)).tolist()
        document = Document.from_words([word for word in drawn for _ in range(generator.integers(1, 4))])
        [saliency] = Occlusion(support).score([document])
        scores, words = saliency.scores.tolist(), document.words
        assert all(scores[n] == scores[n + 1] for n in range(len(words) - 1) if words[n] == words[n + 1])


def test_documents_are_group_by_what_their_variants_cost() -> None:
    items = [Document.from_words(["good"] * size) for size in (1500, 500, 49, 3000, 1)]
    assert [[len(item.words) for item in group] for group in _group(items)] == [[1500, 500], [49], [3000], [1]]


@pytest.mark.parametrize(("name", "must_run"), [("attention", False), ("attention_gradient", True), ("gradient", True)])
def test_frozen_layers_do_not_run_again(name: str, must_run: bool, encoders: dict[str, Path], toy: Splits) -> None:
    network = NetworkConfig(str(encoders["bert"]), layers=1)
    config = ClassifierConfig(network, TrainConfig(epochs=1, device="cpu"))
    context = RunContext(feature_store=FeatureStore(config.train.engine))
    support = SupportModel.train(toy.train, toy.dev, config, context)
    items = [example.document for example in toy.train]
    expected = make_scorer(name, support, {}).score(items)
    n_runs: list[int] = []
    support.classifier.encoder.layers[0].register_forward_hook(lambda *_: n_runs.append(1))
    found = make_scorer(name, replace(support, features=context.feature_store), {}).score(items)
    # With one trained layer, gradients by its attention end below it, in a frozen layer, which must run.
    assert bool(n_runs) == must_run
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)


@pytest.mark.parametrize("name", SLOW)
def test_an_interrupted_captum_leaves_gradients_as_they_were(
    name: str, support: SupportModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_settings: object) -> None:
        torch.set_grad_enabled(False)  # as an interrupt does at the end of captum's own block
        raise KeyboardInterrupt

    scorer = make_scorer(name, support, FEW)
    monkeypatch.setattr(type(scorer), "_method", lambda _self: lambda _forward: Mock(attribute=interrupted))
    with pytest.raises(KeyboardInterrupt):
        scorer.score([Document.from_words(("good", "film"))])
    assert torch.is_grad_enabled()
