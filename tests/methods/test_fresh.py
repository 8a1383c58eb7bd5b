"""Models that FRESH makes, also for rationales of any length."""

import itertools
from typing import Any

import pytest

import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.methods.config import FreshConfig, Range
from fresh.methods.fresh import train, train_seeds
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import Contiguous, TopK, budget
from fresh.selection.extractors import FullText, SaliencyExtractor, with_ratio
from small import Configure

SCORERS = ("attention", "gradient", "integrated_gradients")
RANGE = Range(0.05, 0.5)


def test_no_support_model_is_trained_to_learn_from_people_alone(
    toy: Splits, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SupportModel, "train_many")
    config = configure(epochs=1, tagger=True, human=1, folds=2)
    assert train(small.some(toy, 24, 8), config).support is None
    with pytest.raises(AttributeError, match="train_many"):
        train(small.some(toy, 24, 8), configure(epochs=1, tagger=True, human=0.5))


def test_training_several_seeds_equals_training_each(toy: Splits, configure: Configure) -> None:
    splits = small.some(toy, 24, 8)
    for seed, model in enumerate(train_seeds(splits, configure(epochs=1), range(2))):
        alone = train(splits, configure(epochs=1, seed=seed)).model
        assert model.settings == alone.settings
        assert small.answers([model.explain(LONG)]) == small.answers([alone.explain(LONG)])


def test_a_distilled_model_keeps_its_support_model_for_comparison(toy: Splits, configure: Configure) -> None:
    trained = train(small.some(toy, 24, 8), configure(epochs=1, distil=True))
    assert isinstance(trained.model.extractor, SaliencyExtractor)
    assert trained.model.extractor.support is None
    assert trained.support is not None


def test_more_folds_than_documents_are_refused_before_any_training(
    toy: Splits, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(SupportModel, "train_many")
    with pytest.raises(DataError, match=r"^folds=1000 is more than the \d+ different training documents"):
        train(toy, configure(epochs=1, folds=1000))


# A predictor that has never seen a choice of the extractor


def test_an_independent_predictor_is_the_same_for_every_scorer_and_reads_any_words(
    toy: Splits, configure: Configure
) -> None:
    splits = small.some(toy, 24, 8)
    models = [train(splits, configure(epochs=1, predictor="independent", scorer=name)).model for name in SCORERS]
    assert all(model.ratios == (0.05, 1.0) for model in models)
    for mask in (Mask.full(36), Mask.from_spans([(0, 1)], 36), Mask.from_spans([(3, 5), (20, 36)], 36)):
        [first, *others] = [model.predictor.predict([LONG.cut(mask)]) for model in models]
        assert all(answers == first for answers in others)
    masks = {tuple(model.explain(LONG).mask.kept.tolist()) for model in models}
    assert len(masks) == len(SCORERS)
    assert models[0].explain(LONG, ratio=1.0).rationale.words == LONG.words
    # Each seed has a reader of its own.
    [other] = train_seeds(splits, configure(epochs=1, predictor="independent"), [7])
    assert other.predictor.predict([LONG.cut(Mask.full(36))]) != models[0].predictor.predict([LONG.cut(Mask.full(36))])


@pytest.mark.parametrize(
    ("settings", "ratios"),
    [
        ({"ratio": "0.1:0.5"}, (0.1, 0.5)),
        ({"ratio": 0.02, "discretizer": "contiguous"}, (0.02, 1.0)),
        ({"discretizer": "threshold"}, None),
        ({"discretizer": "global_top_k"}, None),
    ],
)
def test_an_independent_predictor_serves_all_ratios_that_can_be_chosen(
    settings: dict[str, Any], ratios: tuple[float, float] | None
) -> None:
    assert FreshConfig(predictor="independent", **settings).served_ratios == ratios


# Rationales of any length


@pytest.fixture(scope="module", params=["top_k", "contiguous"])
def model(request: pytest.FixtureRequest, toy: Splits, configure: Configure) -> Rationalizer:
    return train(small.some(toy), configure(discretizer=request.param, ratio="0.05:0.5")).model


LONG = Document.from_words(["it", "was", "a", "great", "story", "of", "two", "old", "men"] * 4, id="long")


@pytest.mark.parametrize("ratio", [0.05, 0.07, 0.1, 0.14, 0.28, 0.3, 0.5])
def test_a_ratio_decides_the_number_of_words(model: Rationalizer, ratio: float, toy: Splits) -> None:
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


def test_the_default_ratio_is_the_middle_of_the_range(model: Rationalizer) -> None:
    assert model.ratios == (0.05, 0.5)
    assert model.explain(LONG).mask == model.explain(LONG, ratio=RANGE.middle).mask
    assert RANGE.middle == 0.158


@pytest.mark.parametrize("ratio", [0.04, 0.51, 0.0, -1.0, float("nan")])
def test_a_ratio_out_of_the_range_is_refused(model: Rationalizer, ratio: float) -> None:
    with pytest.raises(ValueError, match=rf"ratio must be .*0\.05.* 0\.5.*{ratio}"):
        model.explain(LONG, ratio=ratio)


def test_a_model_of_one_ratio_refuses_others(predictor: Predictor) -> None:
    single = Rationalizer(SaliencyExtractor(Random(), TopK(0.2)), predictor)
    with pytest.raises(ValueError, match=r"^Another ratio needs a model .* range of ratios.*ratio"):
        single.explain(LONG, ratio=0.2)
    with pytest.raises(ValueError, match=r"^A curve needs a model .* range of ratios.*ratio"):
        single.curve(LONG)


def test_only_discretizers_with_a_ratio_take_another() -> None:
    extractor = SaliencyExtractor(Random(), Contiguous(0.2))
    assert with_ratio(extractor, 0.4) == SaliencyExtractor(Random(), Contiguous(0.4))
    with pytest.raises(TypeError, match=r"ratio.*top_k and contiguous"):
        with_ratio(FullText(), 0.4)


# The curve


def test_a_curve_grows_by_a_word_at_each_point(model: Rationalizer) -> None:
    points = model.curve(LONG).points
    assert [int(point.mask.kept.sum()) for point in points] == list(range(2, 19))
    for point in points:
        assert point.document is LONG
        assert_answered(point, model)
        again = model.explain(LONG, ratio=int(point.mask.kept.sum()) / len(LONG.words) - 0.001)
        assert again.mask == point.mask
        assert again.prediction.probability == pytest.approx(point.prediction.probability, abs=1e-5)
    assert isinstance(model.extractor, SaliencyExtractor)
    if isinstance(model.extractor.discretizer, TopK):
        for shorter, longer in itertools.pairwise(points):
            assert not (shorter.mask.kept & ~longer.mask.kept).any()
    else:
        assert all(len(point.mask.spans) == 1 for point in points)


def test_curves_of_raw_text_and_of_a_single_word(model: Rationalizer) -> None:
    assert len(model.curve("The film, was good and it plays in the sea.")) == 6  # of twelve words
    [only] = model.curve("good").points
    assert only.mask == Mask.full(1)


def test_a_curve_refuses_what_explaining_refuses(model: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"^Document '' has a query, but this model was trained without"):
        model.curve("a good film", query="praise")
    with pytest.raises(TypeError, match=r"^Texts and documents can be explained, got tuple\.$"):
        model.curve(("a", "good", "film"))  # type: ignore[arg-type]
