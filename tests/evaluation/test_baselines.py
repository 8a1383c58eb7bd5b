from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.evaluation.baselines import (
    Baselines,
    is_baseline,
    is_contiguous,
    majority_label,
    random_masks,
    train_baselines,
)
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import Contiguous, LearnedContiguous, TopK
from fresh.selection.extractors import Extractor, FullText, HumanRationales, SaliencyExtractor
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext
from strategies import documents, masks


def labelled(*labels: str) -> list[Example]:
    return [Example(Document.from_text("a film"), label) for label in labels]


def test_the_most_frequent_label_is_the_first_of_several() -> None:
    assert majority_label(labelled("b", "a", "b")) == "b"
    assert majority_label(labelled("b", "a", "c", "a", "b")) == "a"


def test_what_others_are_held_against_is_not_held_against_itself(predictor: Predictor) -> None:
    random = SaliencyExtractor(Random(), TopK(0.2))
    assert is_baseline(Rationalizer(FullText(), predictor))
    assert is_baseline(Rationalizer(random, predictor, {"method": "random"}))
    assert not is_baseline(Rationalizer(random, predictor, {"method": "fresh"}))


def test_each_reads_its_own_part_and_a_model_of_full_text_is_trained_only_once(
    toy: Splits, support: SupportModel, predictor: Predictor, quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = small.some(toy)
    model = small.rationalizer(support, predictor, Contiguous(0.4))
    masks, dev_masks = (
        model.extractor.extract([item.document for item in part]) for part in (splits.train, splits.dev)
    )
    taught: dict[str, list[tuple[str, ...]]] = {}

    def train(train: list[tuple[object, str]], dev: object, config: object, context: RunContext) -> Predictor:
        taught[context.name] = [rationale.words for rationale, _ in train]  # type: ignore[attr-defined]
        return predictor

    def train_many(data: Any, configs: Any, context: RunContext) -> list[Predictor]:
        return [train(data[0].train, data[0].dev, configs[0], context)]

    monkeypatch.setattr(Predictor, "train", train)
    monkeypatch.setattr(Predictor, "train_many", train_many)
    found = train_baselines(splits, model, (masks, dev_masks), None, quick, RunContext())
    documents = [example.document for example in splits.train]
    n_versions = quick.train.epochs
    assert len(taught["independent reader"]) == n_versions * len(documents)
    for number, words in enumerate(taught.pop("independent reader")):
        assert set(words) <= set(documents[number % len(documents)].words)
    assert taught == {
        "complement": [item.cut(~mask).words for item, mask in zip(documents, masks, strict=True)],
        "full text": [item.words for item in documents],
    }
    assert found == Baselines(predictor, predictor, predictor, majority_label(splits.train))
    taught.clear()
    assert train_baselines(splits, model, (masks, dev_masks), support, quick, RunContext()).full_text is support
    assert list(taught) == ["independent reader", "complement"]
    taught.clear()
    whole = train_baselines(splits, replace(model, extractor=FullText()), (masks, dev_masks), None, quick, RunContext())
    assert whole == Baselines(majority=majority_label(splits.train))
    assert not taught


# Random words


def sample(document: Document, mask: Mask, contiguous: bool) -> Mask:
    [sampled] = random_masks([document], [mask], contiguous)
    return sampled


@given(documents(), st.data(), st.booleans())
def test_as_many_words_are_drawn_as_a_mask_keeps(document: Document, data: st.DataObject, contiguous: bool) -> None:
    n_read = data.draw(st.integers(0, len(document.words)))
    read = Mask(np.arange(len(document.words)) < n_read)
    mask = Mask(data.draw(masks(document)).kept & read.kept)
    for drawn in (sample(document, mask, contiguous), *random_masks([document], [mask], contiguous, [read])):
        assert drawn.kept.sum() == mask.kept.sum()
        assert not contiguous or len(drawn.spans) <= 1
    assert not drawn.kept[n_read:].any()
    assert random_masks([document], [mask], contiguous, [read]) == [drawn]


def test_every_window_and_every_word_has_its_chance() -> None:
    mask = Mask(np.array([True, True, False, False]))
    many = [Document.from_words(["a", "b", "c", str(number)]) for number in range(300)]
    windows = {sample(document, mask, True).spans for document in many}
    assert windows == {((0, 2),), ((1, 3),), ((2, 4),)}
    pairs = {tuple(np.flatnonzero(sample(document, mask, False).kept)) for document in many}
    assert len(pairs) == 6


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [
        (FullText(), False),
        (HumanRationales({}), False),
        (SaliencyExtractor(Random(), TopK(0.2)), False),
        (SaliencyExtractor(Random(), Contiguous(0.2)), True),
        (SaliencyExtractor(Random(), LearnedContiguous(0.1, None)), True),
    ],
)
def test_runs_are_compared_with_runs(extractor: Extractor, expected: bool) -> None:
    assert is_contiguous(extractor) is expected
