"""What predictors and taggers are trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask, Saliency
from fresh.errors import DataError
from fresh.methods.config import CutConfig, FreshConfig, Range
from fresh.methods.rationales import (
    N_DEV_LENGTHS,
    N_VERSIONS,
    ScoredSplits,
    check_rationales,
    cross_fit,
    cut_to_many_lengths,
    make_final_scorer,
    split_folds,
    tagger_targets,
)
from fresh.nn.batch import IntArray
from fresh.rationale import Rationale
from fresh.selection.discretizers import GlobalTopK, LearnedTopK, TopK, budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.config import TrainConfig
from fresh.training.fit import TrainingPairs
from fresh.training.loop import RunContext
from small import Configure

SHARES = st.sampled_from((0.0, 0.1, 0.2, 0.25, 0.5, 0.75, 1.0)) | st.floats(0, 1)


def example(number: int, human: Mask | None = None, n_words: int = 4) -> Example:
    words = [f"{number}-{place}" for place in range(n_words)]
    return Example(Document.from_words(words, id=str(number)), ("neg", "pos")[number % 2], human)


MARKED, EMPTY = Mask.from_spans([(1, 2)], 4), Mask.from_spans([], 4)
PSEUDO = Mask.from_spans([(0, 1)], 4)


def examples() -> st.SearchStrategy[list[Example]]:
    """Documents of which people marked some, with nothing marked in some of these."""
    kinds = st.lists(st.sampled_from((MARKED, EMPTY, None)), min_size=1, max_size=30)
    return kinds.map(lambda humans: [example(number, human) for number, human in enumerate([MARKED, *humans])])


def chosen(found: Sequence[Mask | None]) -> set[int]:
    return {number for number, mask in enumerate(found) if mask is not None}


def documents_of(some: Sequence[Example]) -> list[Document]:
    return [item.document for item in some]


# People's rationales for a share of the documents


@given(examples(), SHARES, SHARES, st.integers(0, 9))
def test_a_share_of_the_documents_with_a_rationale_is_used(
    some: list[Example], one: float, other: float, seed: int
) -> None:
    n_marked, samples = sum(item.human is MARKED for item in some), []
    for share in sorted((one, other)):
        found = tagger_targets(some, None, share, seed)
        samples.append(chosen(found))
        assert len(samples[-1]) == (max(1, round(share * n_marked)) if share and n_marked else 0)
        assert found == [MARKED if number in samples[-1] else None for number in range(len(some))]
        mixed = tagger_targets(some, [PSEUDO] * len(some), share, seed)
        assert mixed == [MARKED if number in samples[-1] else PSEUDO for number in range(len(some))]
    assert all(some[number].human is MARKED for number in samples[1])
    assert samples[0] <= samples[1]  # a smaller share is part of a larger one


def test_another_seed_samples_other_documents_and_folds() -> None:
    some = [example(number, MARKED) for number in range(40)]
    drawn = {frozenset(chosen(tagger_targets(some, None, 0.5, seed))) for seed in range(20)}
    assert len(drawn) == 20
    assert set().union(*drawn) == set(range(40))
    assert len({tuple(split_folds(some, 3, seed)[0].tolist()) for seed in range(10)}) == 10


@pytest.mark.parametrize("human", [None, EMPTY])
def test_people_must_have_marked_words(human: Mask | None) -> None:
    some = [example(number, human) for number in range(4)]
    marked = [example(number, MARKED) for number in range(4)]
    with pytest.raises(DataError, match=r"^human=0\.2 needs people's rationales, but no training document has one"):
        check_rationales(Splits(tuple(some), tuple(marked), tuple(marked)), 0.2)
    with pytest.raises(DataError, match="but no dev document has one"):
        check_rationales(Splits(tuple(marked), tuple(some), tuple(some)), 1)
    check_rationales(Splits(tuple(marked), tuple(some), tuple(some)), 0.2)
    check_rationales(Splits(tuple(some), tuple(some), tuple(some)), 0)


# Folds


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 5))
def test_folds_have_about_equal_sizes_and_equal_documents_stay_together(
    kinds: list[int], n_parts: int, seed: int
) -> None:
    some = [Example(Document.from_words(["film", str(kind)], [str(place)]), "pos") for place, kind in enumerate(kinds)]
    if len(set(kinds)) < n_parts:
        with pytest.raises(DataError, match=f"folds={n_parts} is more than the {len(set(kinds))} different training"):
            split_folds(some, n_parts, seed)
        return
    parts = split_folds(some, n_parts, seed)
    assert len(parts) == n_parts
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(some)))
    sizes = [len(part) for part in parts]
    assert min(sizes) > 0
    assert max(sizes) - min(sizes) <= max(map(kinds.count, kinds))
    for kind in set(kinds):
        places = {place for place, own in enumerate(kinds) if own == kind}
        assert sum(bool(places & set(part.tolist())) for part in parts) == 1
    again = split_folds(some, n_parts, seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


# Cross-fitting


@dataclass
class Spy:
    """Gives each word the number of the network that is asked."""

    number: int

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        return [Saliency(np.full(len(item.words), self.number, dtype=float), "", item.id) for item in documents]


class Trainings:
    """What networks were trained on, in the order of their training."""

    def __init__(self) -> None:
        self.supports: list[list[int]] = []
        self.taggers: list[list[int]] = []
        self.lessons: list[tuple[list[Mask], list[Mask]]] = []  # the words of train and dev that a tagger was to keep

    def latest_support(self, _support: SupportModel) -> Spy:
        return Spy(len(self.supports) - 1)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch, support: SupportModel) -> Trainings:
    """Trains nothing, and remembers what would have been trained."""
    found = Trainings()

    def support_of(
        _cls: type, train: Any, _dev: Any, _config: Any, _context: RunContext, only: IntArray | None = None
    ) -> SupportModel:
        found.supports.append(list(range(len(train))) if only is None else only.tolist())
        return support

    def tagger_of(_cls: type, train: Any, dev: Any, *_given: Any) -> Spy:
        found.lessons.append(([mask for _, mask in train], [mask for _, mask in dev]))
        found.taggers.append([number for number, (_, mask) in enumerate(train) if mask is not None])
        return Spy(len(found.taggers) - 1)

    monkeypatch.setattr(SupportModel, "train", classmethod(support_of))
    monkeypatch.setattr(Tagger, "train", classmethod(tagger_of))
    return found


def cross_fitted(splits: Splits, config: FreshConfig, factory: Callable[[SupportModel], Spy]) -> ScoredSplits:
    before, dev = ([Saliency(np.full(len(e.document.words), -1.0), "") for e in p] for p in (splits.train, splits.dev))
    marked = ScoredSplits(SaliencyExtractor(Spy(-1), config.make_discretizer()), before, dev)
    return cross_fit(splits, config, marked, RunContext(), factory)


@pytest.mark.parametrize(("tagger", "human"), [(False, 0.0), (True, 0.0), (True, 0.5), (True, 1.0)])
def test_networks_score_only_what_they_were_trained_without(
    tagger: bool, human: float, trainings: Trainings, toy: Splits, configure: Configure
) -> None:
    config = configure(folds=4, tagger=tagger, human=human)
    marked = cross_fitted(small.some(toy, 40, 8), config, trainings.latest_support)
    asked = [int(saliency.scores[0]) for saliency in marked.scores]
    assert set(asked) == {0, 1, 2, 3}
    assert (len(trainings.supports), len(trainings.taggers)) == (4 * (human < 1), 4 * tagger)
    for kind in filter(None, (trainings.supports, trainings.taggers)):
        for network, seen in enumerate(kind):
            assert sorted([*seen, *(number for number in range(40) if asked[number] == network)]) == list(range(40))
    assert all(saliency.scores[0] == -1 for saliency in marked.dev_scores)


def test_a_tagger_learns_from_people_alone_only_where_they_marked_something(
    trainings: Trainings, toy: Splits, configure: Configure
) -> None:
    silent = map(small.unmarked, toy.train[20:40])
    splits = Splits((*toy.train[:20], *silent), toy.dev, toy.test)
    cross_fitted(splits, configure(folds=2, tagger=True, human=1), trainings.latest_support)
    assert all(max(seen) < 20 for seen in trainings.taggers)


def test_people_teach_on_train_only_with_a_scorer_and_on_dev_too_without(
    trainings: Trainings, toy: Splits, configure: Configure, support: SupportModel
) -> None:
    splits, config = small.some(toy, 40, 8), configure(tagger=True, human=0.5)
    trainings.supports.append([])
    make_final_scorer(splits, config, lambda: trainings.latest_support(support), RunContext())
    no_scorer = partial(pytest.fail, "a scorer was made")
    make_final_scorer(splits, configure(tagger=True, human=1), no_scorer, RunContext())
    [(wanted, dev_wanted), alone] = trainings.lessons
    pseudo, dev_pseudo = (TopK(0.2).select(Spy(0).score(documents_of(part))) for part in (splits.train, splits.dev))
    assert wanted == tagger_targets(splits.train, pseudo, 0.5, config.train.seed)
    assert dev_wanted == dev_pseudo
    assert alone == ([item.human for item in splits.train], [item.human for item in splits.dev])


def test_a_global_budget_is_spent_on_the_scores_of_all_folds(
    trainings: Trainings, toy: Splits, configure: Configure
) -> None:
    config = configure(folds=4, discretizer="global_top_k")
    marked = cross_fitted(small.some(toy, 40, 8), config, trainings.latest_support)
    assert marked.extractor.discretizer == GlobalTopK(0.2).learn(marked.scores)
    assert isinstance(marked.extractor.discretizer, LearnedTopK)


def test_a_fold_must_leave_enough_to_train_on(trainings: Trainings, toy: Splits, configure: Configure) -> None:
    expected = r"^folds=2 leaves too few documents to train on\. Choose fewer folds\.$"
    only_one = Splits(toy.train[:2], toy.dev, toy.test)
    with pytest.raises(DataError, match=expected):
        cross_fitted(only_one, configure(folds=2), trainings.latest_support)
    silent = map(small.unmarked, toy.train[1:20])
    one_marked = Splits((toy.train[0], *silent), toy.dev, toy.test)
    with pytest.raises(DataError, match=expected):
        cross_fitted(one_marked, configure(folds=2, tagger=True, human=1), trainings.latest_support)


# Rationales of many lengths

RANGE = Range(0.05, 0.5)


EXAMPLES = [example(number, None, n_words) for number, n_words in enumerate([1, 7, 20, 40, 41, 100, 33, 64])]
SCORES = Random().score([example.document for example in EXAMPLES])


def pairs_of(
    seed: int = 0, discretizer: str = "top_k", examples: Sequence[Example] = EXAMPLES
) -> TrainingPairs[Rationale]:
    config = CutConfig(train=TrainConfig(seed=seed), discretizer=discretizer, ratio="0.05:0.5")
    splits = Splits(tuple(examples), tuple(examples[2:4]), tuple(examples[2:4]))
    scores, dev_scores = (Random().score(documents_of(part)) for part in (splits.train, splits.dev))
    scored = ScoredSplits(SaliencyExtractor(Random(), TopK(0.2)), scores, dev_scores)
    return cut_to_many_lengths(splits, scored, config, RANGE)


@pytest.mark.parametrize("discretizer", ["top_k", "contiguous"])
def test_a_predictor_is_trained_on_lengths_within_the_range(discretizer: str) -> None:
    found = pairs_of(discretizer=discretizer)
    assert found.n_versions == N_VERSIONS
    assert len(found.train) == N_VERSIONS * len(EXAMPLES)
    for number, (rationale, label) in enumerate(found.train):
        example = EXAMPLES[number % len(EXAMPLES)]
        n_words = len(example.document.words)
        assert label == example.label
        assert set(rationale.words) <= set(example.document.words)
        assert budget(n_words, RANGE.low) <= len(rationale.words) <= budget(n_words, RANGE.high)


def test_the_words_of_each_length_are_the_best_ones() -> None:
    for number, (rationale, _) in enumerate(pairs_of().train):
        place = number % len(EXAMPLES)
        order = np.argsort(-SCORES[place].scores, kind="stable")[: len(rationale.words)]
        document = EXAMPLES[place].document
        assert rationale.words == tuple(document.words[word] for word in sorted(order.tolist()))


def test_lengths_are_sampled_from_the_seed() -> None:
    assert pairs_of(seed=1) == pairs_of(seed=1)
    assert pairs_of(seed=1).train != pairs_of(seed=2).train
    assert pairs_of(seed=1).dev == pairs_of(seed=2).dev


def test_versions_differ_in_length_from_the_shortest_to_the_longest() -> None:
    found = pairs_of(examples=[example(number, None, 100) for number in range(60)])
    lengths = [len(rationale.words) for rationale, _ in found.train]
    assert (min(lengths), max(lengths)) == (5, 50)
    assert np.median(lengths) == pytest.approx(16, abs=2)  # as many below the middle as above it


def test_dev_has_a_few_lengths() -> None:
    found = pairs_of().dev
    assert len(found) == N_DEV_LENGTHS * 2
    expected = [budget(n_words, ratio) for ratio in RANGE.spread(N_DEV_LENGTHS) for n_words in (20, 40)]
    assert [len(rationale.words) for rationale, _ in found] == expected
