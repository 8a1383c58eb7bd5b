import json
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cheats
import small
from fresh.attribution import SCORERS, TargetedScorer, is_targeted, make_scorer, with_target
from fresh.attribution.support_model import SupportModel
from fresh.audit.target_class import _runner_up, check_target_class
from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation
from fresh.metrics.classification import accuracy, macro_f1
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.token_classifier import TokenClassifier
from fresh.persistence import MANIFEST
from fresh.predictor import Predictor
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText, HumanRationales, SaliencyExtractor, select_masks
from fresh.selection.tagger import Tagger
from fresh.training.config import ClassifierConfig
from fresh.training.fit import build
from tiny import WORDS

FEW: dict[str, Any] = {"samples": 40, "steps": 4}
TARGETED = [name for name in SCORERS if name not in ("attention", "random")]


@pytest.fixture(scope="module")
def three(encoders: dict[str, Path]) -> SupportModel:
    """A support model of three classes that was not trained, but is not indifferent either."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        classifier = Classifier(load_encoder(str(encoders["bert"]), "start"), ("a", "b", "c"), NetworkConfig())
        assert isinstance(classifier.head, torch.nn.Linear)
        torch.nn.init.normal_(classifier.head.weight)
    return SupportModel(classifier.double())


def documents(n_documents: int) -> list[Document]:
    """Sample short documents; every other one has a query."""
    generator = np.random.default_rng(1)
    rows = ([*generator.choice(WORDS, size).tolist(), "unheard-of"] for size in generator.integers(0, 12, n_documents))
    return [Document.from_words(words, ("praise",) * (number % 2), str(number)) for number, words in enumerate(rows)]


def scorer_of(name: str, support: SupportModel) -> TargetedScorer:
    scorer = make_scorer(name, support, FEW)
    assert is_targeted(scorer)
    return scorer


# Every scorer that explains a label can explain another


@pytest.mark.parametrize("name", TARGETED)
def test_a_scorer_explains_its_target_and_by_default_the_predicted_label(name: str, three: SupportModel) -> None:
    scorer, items = scorer_of(name, three), documents(4)
    found = {label: with_target(scorer, label).score(items) for label in ("a", "b", "c")}
    for label, saliencies in found.items():
        assert {saliency.target for saliency in saliencies} == {label}
    for place, plain in enumerate(scorer.score(items)):
        np.testing.assert_allclose(found[plain.target][place].scores, plain.scores, atol=1e-9)
    longest = max(range(4), key=lambda place: len(items[place].words))
    for one, other in combinations((saliencies[longest].scores for saliencies in found.values()), 2):
        assert not np.allclose(one, other)
    assert scorer.support.target is None  # the scorer itself is as it was


@pytest.mark.parametrize("name", TARGETED)
def test_scores_of_two_labels_are_opposite_and_sizes_of_gradients_equal(name: str, support: SupportModel) -> None:
    scorer, items = scorer_of(name, support), documents(3)
    for one, other in zip(*(with_target(scorer, label).score(items) for label in ("neg", "pos")), strict=True):
        np.testing.assert_allclose(one.scores, other.scores * (1 if name == "gradient" else -1), atol=1e-4)
    with pytest.raises(ValueError, match=r"neg, pos.*'good'"):
        with_target(scorer, "good")


def test_words_for_and_against_are_the_same_for_both_of_two_labels(
    support: SupportModel, predictor: Predictor, toy: Splits, tmp_path: Path
) -> None:
    scorer = make_scorer("attention_gradient", support, {"evidence": "both"})
    model = Rationalizer(SaliencyExtractor(scorer, TopK(0.2), support), predictor)
    found = check_target_class(model, toy.test, explain_all(model, toy.test))
    assert found.found == "not run"
    assert "Words for another class are the same words" in found.says
    model.save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / MANIFEST).read_text())["chosen_by"]["scorer"]["evidence"] == "both"
    loaded = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    assert [item.mask for item in explain_all(loaded, toy.test)] == [item.mask for item in explain_all(model, toy.test)]


# How much of the accuracy comes from the class that words are selected for


def test_the_runner_up_comes_second_and_the_earlier_one_in_a_tie() -> None:
    assert _runner_up(Prediction("b", {"a": 0.2, "b": 0.5, "c": 0.3})) == "c"
    assert _runner_up(Prediction("c", {"a": 0.25, "b": 0.25, "c": 0.5})) == "a"


def explain_all(model: Rationalizer, examples: Sequence[Example]) -> list[Explanation]:
    return model.explain([example.document for example in examples])


def scatter(_place: int, rationale: Rationale) -> Prediction:
    """Predict some other class for other words."""
    return Prediction("abc"[sum(map(ord, " ".join(rationale.words))) % 3], dict.fromkeys("abc", 1 / 3))


@pytest.mark.parametrize("n_labels", [2, 3])
def test_figures_are_those_computed_by_hand(
    n_labels: int, rationalizer: Rationalizer, three: SupportModel, toy: Splits
) -> None:
    model, examples = rationalizer, toy.test
    if n_labels == 3:
        model = small.rationalizer(three, cheats.Answering(three.classifier, scatter), TopK(0.2))
        examples = tuple(Example(item, "abc"[len(item.words) % 3]) for item in documents(60) if not item.query)
    explained, extractor = explain_all(model, examples), model.extractor
    assert isinstance(extractor, SaliencyExtractor)
    assert is_targeted(extractor.scorer)
    answers: list[str] = []
    n_other = n_followed = n_stayed = n_same = 0
    for example, item in zip(examples, explained, strict=True):
        [answer] = extractor.scorer.support.predict([example.document])
        asked = sorted(model.labels, key=lambda label: -answer.probabilities[label])[1]
        scores = with_target(extractor.scorer, asked).score([example.document])
        [mask] = select_masks(extractor.discretizer, scores)
        [found] = model.predictor.predict([example.document.cut(mask)])
        answers.append(found.label)
        n_same += item.mask == mask
        n_other += item.prediction.label != asked
        n_followed += item.prediction.label != asked == found.label
        n_stayed += item.prediction.label == found.label != asked
    assert n_labels == 2 or n_followed + n_stayed < n_other  # some change to a third class
    gold, own = [example.label for example in examples], [item.prediction.label for item in explained]
    evidence = check_target_class(model, examples, explained).evidence
    assert evidence[0] == (
        f"Words for the class that the support model predicts: accuracy {accuracy(gold, own):.3f}, "
        f"macro-F1 {macro_f1(gold, own, model.labels):.3f}."
    )
    assert evidence[1] == (
        f"Words for its runner-up: accuracy {accuracy(gold, answers):.3f}, macro-F1 "
        f"{macro_f1(gold, answers, model.labels):.3f}; of {n_other} documents with words for another class than the "
        f"prediction, {n_stayed} ({n_stayed / n_other:.1%}) keep their prediction and {n_followed} "
        f"({n_followed / n_other:.1%}) change it to that class; {n_same} of {len(examples)} rationales stay the same."
    )
    [at_random] = re.findall(r"of (\d+) documents .* (\d+) of \d+ rationales stay the same", evidence[2])
    assert 0 < int(at_random[0]) <= len(examples)
    assert int(at_random[1]) > n_same


def test_predictions_that_follow_the_class_are_flagged(rationalizer: Rationalizer, toy: Splits) -> None:
    # Documents with a good and a bad word each, so the prediction depends on which one is selected.
    rows = [((*item.document.words, {"pos": "bad", "neg": "good"}[item.label]), item.label) for item in toy.test]
    examples = [Example(Document.from_words(words), label) for words, label in rows]
    found = check_target_class(rationalizer, examples, explain_all(rationalizer, examples))
    assert (found.name, found.found) == ("target class", "look here")
    assert re.match(
        r"When words are selected for a class other than the prediction, \d+\.\d% of the predictions stay for its "
        r"runner-up and \d+\.\d% for a random class; accuracy is 0\.\d{3} with words for the class that the support "
        r"model predicts, 0\.\d{3} for its runner-up and 0\.\d{3} for a random class: predictions depend on",
        found.says,
    )
    assert len(found.evidence) == 4


def test_predictions_that_stay_are_fine_and_with_all_words_nothing_is_shown(
    support: SupportModel, predictor: Predictor, toy: Splits
) -> None:
    most, whole = (small.rationalizer(support, predictor, TopK(ratio)) for ratio in (0.8, 1.0))
    found = check_target_class(most, toy.test, explain_all(most, toy.test))
    assert found.found == "holds"
    assert found.says.endswith(": at least half of the predictions stay.")
    found = check_target_class(whole, toy.test, explain_all(whole, toy.test))
    assert found.found == "not run"
    assert "(100.0%) keep their prediction and 0 (0.0%) change it" in found.evidence[1]
    assert found.evidence[1].endswith("32 of 32 rationales stay the same.")


def test_predictions_that_change_to_any_other_class_do_not_stay(three: SupportModel) -> None:
    """With three classes, less than half of the predictions follow, and still most do not stay."""
    model = small.rationalizer(three, cheats.Answering(three.classifier, scatter), TopK(0.2))
    explained = model.explain([document for document in documents(120) if not document.query])
    found = check_target_class(model, [Example(item.document, item.prediction.label) for item in explained], explained)
    assert found.found == "look here"
    [shares] = re.findall(r"\((\d+\.\d)%\) keep their prediction and \d+ \((\d+\.\d)%\)", found.evidence[1])
    assert max(map(float, shares)) < 50
    assert f" {shares[0]}% of the predictions stay for its runner-up and " in found.says


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("attention", r"Scores of attention are the same for every class"),
        ("random", r"Scores of random are the same for every class"),
        ("own", r"custom scorer small\.LongWords cannot explain a given class"),
        ("all words", r"No scorer selects the words"),
        ("people", r"No scorer selects the words"),
        ("tagger", r"A tagger or gate .* cannot explain a given class"),
    ],
)
def test_without_a_target_the_check_is_not_run(
    name: str, reason: str, support: SupportModel, predictor: Predictor, toy: Splits, encoders: dict[str, Path]
) -> None:
    network = NetworkConfig(str(encoders["bert"]))
    extractors: dict[str, Any] = {
        "own": SaliencyExtractor(small.LongWords(support), TopK(0.2)),
        "all words": FullText(),
        "people": HumanRationales.of(toy.test),
        "tagger": SaliencyExtractor(Tagger(build(TokenClassifier, "words", ClassifierConfig(network))), TopK(0.2)),
    }
    extractor = extractors.get(name) or SaliencyExtractor(make_scorer(name, support, {}), TopK(0.2), support)
    model = Rationalizer(extractor, predictor)
    found = check_target_class(model, toy.test, explain_all(model, toy.test))
    assert (found.found, found.evidence) == ("not run", ())
    assert re.search(reason, found.says)
