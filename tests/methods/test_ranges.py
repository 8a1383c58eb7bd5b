"""One predictor for every length of rationales."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import fresh.training.fit
import small
from fresh.attribution.random import Random
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation, Mask
from fresh.methods.config import CutConfig, Range
from fresh.methods.fresh import FreshConfig, train
from fresh.methods.result import N_DEV_LENGTHS, N_VERSIONS, pairs_of_many_lengths
from fresh.predictor import Predictor, TrainingPairs
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import Contiguous, TopK, budget
from fresh.selection.extractors import FullText, SaliencyExtractor, with_ratio
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.step import Loss
from strategies import ratios

RANGE = Range(0.05, 0.5)
NEEDS = "a model that was trained for a range of ratios, such as ratio=0.05:0.5. This one serves a single length."


def made_up(n_words: int, number: int) -> Example:
    words = [f"{number}-{place}" for place in range(n_words)]
    return Example(Document.from_words(words, id=str(number)), ("neg", "pos")[number % 2])


EXAMPLES = [made_up(n_words, number) for number, n_words in enumerate([1, 7, 20, 40, 41, 100, 33, 64])]
SCORES = Random().score([example.document for example in EXAMPLES])


def lessons(seed: int = 0, discretizer: str = "top_k", ratio: str = "0.05:0.5") -> TrainingPairs:
    config = CutConfig(train=TrainConfig(seed=seed), discretizer=discretizer, ratio=ratio)
    assert config.ratios is not None
    return pairs_of_many_lengths((EXAMPLES, SCORES), (EXAMPLES[2:4], SCORES[2:4]), config, config.ratios)


# The range


@given(ratios(), ratios(), st.integers(2, 40))
def test_ratios_are_spread_from_the_lowest_to_the_highest(one: float, other: float, n: int) -> None:
    if one == other:
        return
    span = Range(*sorted((one, other)))
    found = span.spread(n)
    assert len(found) == n
    assert found == sorted(found)
    assert span.low <= found[0] <= found[-1] <= span.high
    assert found[0] == pytest.approx(span.low, abs=1e-4)
    assert found[-1] == pytest.approx(span.high, abs=1e-4)
    assert span.low <= span.middle <= span.high


def test_the_middle_is_as_many_times_the_lowest_as_the_highest_is_of_it() -> None:
    assert Range(0.05, 0.2).middle == 0.1
    assert CutConfig(ratio="0.05:0.2").make_discretizer() == TopK(0.1)
    assert CutConfig(ratio="0.05:0.2").make_discretizer(0.07) == TopK(0.07)


# Training


@pytest.mark.parametrize("discretizer", ["top_k", "contiguous"])
def test_a_predictor_is_trained_on_lengths_within_the_range(discretizer: str) -> None:
    found = lessons(discretizer=discretizer)
    assert found.n_versions == N_VERSIONS
    assert len(found.train) == N_VERSIONS * len(EXAMPLES)
    for number, (rationale, label) in enumerate(found.train):
        example = EXAMPLES[number % len(EXAMPLES)]
        n_words = len(example.document.words)
        assert label == example.label
        assert set(rationale.words) <= set(example.document.words)
        assert budget(n_words, RANGE.low) <= len(rationale.words) <= budget(n_words, RANGE.high)


def test_the_words_of_each_length_are_the_best_ones() -> None:
    for number, (rationale, _) in enumerate(lessons().train):
        place = number % len(EXAMPLES)
        order = np.argsort(-SCORES[place].scores, kind="stable")[: len(rationale.words)]
        document = EXAMPLES[place].document
        assert rationale.words == tuple(document.words[word] for word in sorted(order.tolist()))


def test_lengths_are_drawn_from_the_seed() -> None:
    assert lessons(seed=1) == lessons(seed=1)
    assert lessons(seed=1).train != lessons(seed=2).train
    assert lessons(seed=1).dev == lessons(seed=2).dev


def test_versions_differ_in_length_from_the_shortest_to_the_longest() -> None:
    many = [example for example in EXAMPLES if len(example.document.words) == 100] * 60
    scores = Random().score([example.document for example in many])
    config = CutConfig(ratio="0.05:0.5")
    found = pairs_of_many_lengths((many, scores), (many[:1], scores[:1]), config, RANGE)
    lengths = [len(rationale.words) for rationale, _ in found.train]
    assert (min(lengths), max(lengths)) == (5, 50)
    assert np.median(lengths) == pytest.approx(16, abs=2)  # as many below the middle as above it


def test_a_state_is_judged_at_a_few_lengths() -> None:
    found = lessons().dev
    assert len(found) == N_DEV_LENGTHS * 2
    expected = [budget(n_words, ratio) for ratio in RANGE.spread(N_DEV_LENGTHS) for n_words in (20, 40)]
    assert [len(rationale.words) for rationale, _ in found] == expected


@given(st.integers(1, 5), st.integers(0, 6), st.integers(0, 30))
def test_each_epoch_reads_the_next_version(n_versions: int, n_each: int, epoch: int) -> None:
    pairs = [(Rationale((str(number),)), "pos") for number in range(n_versions * n_each)]
    given_lessons = TrainingPairs(pairs, [], n_versions)
    epochs = [given_lessons.numbers(epoch + step).tolist() for step in range(n_versions)]
    assert sorted(np.concatenate(epochs).tolist()) == list(range(len(pairs)))
    assert given_lessons.numbers(epoch).tolist() == given_lessons.numbers(epoch + n_versions).tolist()
    assert given_lessons.numbers(0).tolist() == list(range(n_each))


def test_a_predictor_reads_one_version_an_epoch(quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = fresh.training.fit._make_loss

    def noting(*given: Any) -> Loss:
        loss = real(*given)

        def noted(numbers: Tensor, width: int, dense: bool) -> Tensor:
            read.extend(numbers.tolist())
            return loss(numbers, width, dense)

        return noted

    monkeypatch.setattr(fresh.training.fit, "_make_loss", noting)
    pairs = [(Rationale((word,)), label) for word, label in (("good", "pos"), ("bad", "neg")) * 6]
    config = replace(quick, train=replace(quick.train, epochs=4))
    Predictor.train_many([TrainingPairs(pairs, pairs[:2], 3)], [config])
    assert [sorted(read[start : start + 4]) for start in range(0, 16, 4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [0, 1, 2, 3],
    ]


# Explaining


@pytest.fixture(scope="module", params=["top_k", "contiguous"])
def model(request: pytest.FixtureRequest, toy: Splits, encoders: dict[str, Path]) -> Rationalizer:
    settings = small.settings(encoders["bert"], discretizer=request.param, ratio="0.05:0.5")
    return train(small.some(toy), from_mapping(FreshConfig, settings))


@pytest.fixture(scope="module")
def single(predictor: Predictor) -> Rationalizer:
    return Rationalizer(SaliencyExtractor(Random(), TopK(0.2)), predictor)


LONG = Document.from_words(["it", "was", "a", "great", "story", "of", "two", "old", "men"] * 4, id="long")


@pytest.mark.parametrize("ratio", [0.05, 0.07, 0.1, 0.14, 0.28, 0.3, 0.5])
def test_a_ratio_buys_its_words(model: Rationalizer, ratio: float, toy: Splits) -> None:
    documents = [LONG, *(example.document for example in toy.test[:8])]
    for found in model.explain(documents, ratio=ratio):
        assert int(found.mask.kept.sum()) == budget(len(found.mask), ratio)
        assert_answered(found, model)
    streamed = model.explain_stream(iter(documents), batch_size=3, ratio=ratio)
    assert [item.mask for item in streamed] == [item.mask for item in model.explain(documents, ratio=ratio)]


def assert_answered(found: Explanation, model: Rationalizer) -> None:
    """The answer is that to the rationale alone; sums in batches of other shapes may differ in their last digits."""
    [alone] = model.predictor.predict([found.rationale])
    assert found.prediction.label == alone.label
    assert found.prediction.probability == pytest.approx(alone.probability, abs=1e-5)


def test_without_a_ratio_the_middle_one_is_taken(model: Rationalizer) -> None:
    assert model.ratios == (0.05, 0.5)
    assert model.explain(LONG).mask == model.explain(LONG, ratio=RANGE.middle).mask
    assert RANGE.middle == 0.158


@pytest.mark.parametrize("ratio", [0.04, 0.51, 0.0, -1.0, float("nan")])
def test_a_ratio_out_of_the_range_is_refused(model: Rationalizer, ratio: float) -> None:
    with pytest.raises(ValueError, match=rf"ratio must be in \[0\.05, 0\.5\].*{ratio}"):
        model.explain(LONG, ratio=ratio)


def test_a_model_of_one_length_serves_no_other(single: Rationalizer) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'Another ratio needs {NEEDS}')}$"):
        single.explain(LONG, ratio=0.2)
    with pytest.raises(ValueError, match=f"^{re.escape(f'A curve needs {NEEDS}')}$"):
        single.curve(LONG)


def test_only_what_is_cut_to_a_ratio_can_be_cut_to_another() -> None:
    extractor = SaliencyExtractor(Random(), Contiguous(0.2))
    assert with_ratio(extractor, 0.4) == SaliencyExtractor(Random(), Contiguous(0.4))
    with pytest.raises(
        TypeError, match=r"^Only rationales of top_k and contiguous have a ratio that can be changed\.$"
    ):
        with_ratio(FullText(), 0.4)


def test_a_saved_model_still_serves_its_range(model: Rationalizer, single: Rationalizer, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "many")
    single.save_pretrained(tmp_path / "one")
    loaded = Rationalizer.from_pretrained(tmp_path / "many", device="cpu")
    assert loaded.ratios == (0.05, 0.5)
    assert Rationalizer.from_pretrained(tmp_path / "one").ratios is None
    for ratio in (0.05, 0.3):
        assert loaded.explain(LONG, ratio=ratio).mask == model.explain(LONG, ratio=ratio).mask
        assert loaded.explain(LONG, ratio=ratio).prediction == model.explain(LONG, ratio=ratio).prediction
    assert [point.prediction for point in loaded.curve(LONG).points] == [
        point.prediction for point in model.curve(LONG).points
    ]


# The curve


def test_a_curve_grows_by_a_word_at_each_point(model: Rationalizer) -> None:
    points = model.curve(LONG).points
    assert [int(point.mask.kept.sum()) for point in points] == list(range(2, 19))
    for point in points:
        assert point.document is LONG
        assert_answered(point, model)
    assert isinstance(model.extractor, SaliencyExtractor)
    if isinstance(model.extractor.discretizer, TopK):
        for shorter, longer in itertools.pairwise(points):
            assert not (shorter.mask.kept & ~longer.mask.kept).any()
    else:
        assert all(len(point.mask.spans) == 1 for point in points)


def test_a_curve_has_what_explaining_at_its_lengths_gives(model: Rationalizer) -> None:
    points = model.curve(LONG).points
    for point in (points[0], points[8], points[-1]):
        again = model.explain(LONG, ratio=int(point.mask.kept.sum()) / len(LONG.words) - 0.001)
        assert again.mask == point.mask
        assert again.prediction.label == point.prediction.label
        assert again.prediction.probability == pytest.approx(point.prediction.probability, abs=1e-5)


def test_raw_text_and_a_single_word_have_a_curve_too(model: Rationalizer) -> None:
    assert len(model.curve("The film, was good and it plays in the sea.")) == 6  # of twelve words
    [only] = model.curve("good").points
    assert only.mask == Mask.full(1)


def test_a_curve_refuses_what_explaining_refuses(model: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"^Document '' has a query, but this model was trained without"):
        model.curve("a good film", query="praise")
    with pytest.raises(TypeError, match=r"^Texts and documents can be explained, got tuple\.$"):
        model.curve(("a", "good", "film"))  # type: ignore[arg-type]
