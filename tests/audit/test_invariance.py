import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cheats
import small
from fresh.attribution.support_model import SupportModel
from fresh.audit.changes import Change
from fresh.audit.invariance import ALONG, _bracketed, _Counterexample, _Held, _take_turns, _Trial, try_to_break
from fresh.data.splits import Splits
from fresh.document import Document, Explanation, Mask
from fresh.predictor import Predictor
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import HumanRationales


@pytest.fixture(scope="module")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2), "attention")


@pytest.fixture(scope="module")
def documents(toy: Splits) -> list[Document]:
    return [example.document for example in toy.test]


def test_nothing_breaks_an_honest_model(model: Rationalizer, documents: list[Document]) -> None:
    trials = try_to_break(model, model.explain(documents), 700)
    assert trials.kinds.total() == 700
    assert set(trials.kinds) == {"replaced", "deleted", "multiplied", "added"}
    assert min(trials.kinds.values()) > 100
    assert trials.counterexamples == ()
    verdict = trials.verdict
    assert (verdict.name, verdict.found) == ("invariance", "holds")
    assert verdict.says == (
        "Words outside the rationale were changed 700 times: every time the same rationale and the same "
        "probabilities, bit for bit."
    )
    assert re.fullmatch(
        r"700 trials on 32 documents; dropped words \d+ replaced, \d+ deleted, \d+ multiplied, \d+ added; "
        r"0 counterexamples\.",
        verdict.evidence[0],
    )


@pytest.mark.parametrize("cheat", [cheats.FullTextReader, cheats.PositionReader, cheats.Disobedient])
def test_a_model_that_reads_past_the_wall_is_caught(
    cheat: type[Rationalizer], model: Rationalizer, documents: list[Document]
) -> None:
    dishonest = cheat(model.extractor, model.predictor)
    verdict = try_to_break(dishonest, dishonest.explain(documents), 200).verdict
    assert verdict.found == "broken"
    assert re.fullmatch(r"In \d+ of 200 trials, words outside the rationale changed the answer\.", verdict.says)
    assert sum(line.endswith("; kept words stand in brackets:") for line in verdict.evidence) == 3


def test_a_predictor_that_is_told_on_the_side_is_caught(model: Rationalizer, documents: list[Document]) -> None:
    passed: list[int] = []
    smuggler = cheats.Smuggler(model.extractor, passed)
    dishonest = replace(model, extractor=smuggler, predictor=cheats.Receiver(model.predictor.classifier, passed))
    assert try_to_break(dishonest, dishonest.explain(documents), 200).verdict.found == "broken"


def test_a_predictor_that_knows_documents_by_name_learns_nothing_from_trials(
    model: Rationalizer, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    explained, names, predict = model.explain(documents), list[str](), Predictor.predict

    def listen(predictor: Predictor, rationales: Sequence[Rationale]) -> list[Prediction]:
        names.extend(item.id for item in rationales)
        return predict(predictor, rationales)

    monkeypatch.setattr(Predictor, "predict", listen)
    try_to_break(model, explained, 40)
    assert names
    assert not {document.id for document in documents} & set(names)


def test_a_counterexample_is_shown_whole() -> None:
    before, after = Document.from_words(("a", "good", "film"), ("why",), "x"), Document.from_words(("good",), ("why",))
    mask, left = Mask.from_spans([(1, 2)], 3), Mask.full(1)
    trial = _Trial(before, mask, Change("deleted", after, left))
    found = _Counterexample(
        trial,
        Explanation(before, mask, before.cut(mask), cheats.sure("pos")),
        Explanation(after, left, after.cut(left), cheats.sure("neg")),
    )
    assert found.lines() == [
        "document 'x', dropped words deleted; kept words stand in brackets:",
        "  before: a [good] film",
        "  after: [good]",
        "  mask before: ((1, 2),) of 3 words",
        "  mask after: ((0, 1),) of 1 words",
        "  query: why",
        "  rationale before: good",
        "  rationale after: good",
        "  answer before: pos (neg 0.0, pos 1.0)",
        "  answer after: neg (neg 1.0, pos 0.0)",
    ]


def test_brackets_stand_around_kept_words() -> None:
    assert _bracketed(Document.from_words(("a", "b")), Mask.from_spans([(1, 2)], 2)) == "a [b]"


@given(st.integers(1, 600), st.integers(1, 2000))
def test_documents_take_turns(n_documents: int, n_trials: int) -> None:
    groups = list(_take_turns(n_documents, n_trials, np.random.default_rng(0)))
    places = [place for group in groups for place in group]
    counts = np.bincount(places, minlength=n_documents)
    assert len(places) == n_trials
    assert counts.max() - counts.min() <= 1
    assert max(map(len, groups)) <= BATCH_SIZE
    a_round = n_documents * max(1, BATCH_SIZE // n_documents)
    n_rounds, n_groups = -(-n_trials // a_round), 1 + -(-max(0, a_round - ALONG) // BATCH_SIZE)
    assert len(set(groups)) <= n_groups + (n_rounds > 1)  # so that documents are not explained anew before each change


def test_the_same_seed_draws_the_same(model: Rationalizer, documents: list[Document]) -> None:
    explained = model.explain(documents)
    first, second, other = (try_to_break(model, explained, 50, seed).kinds for seed in (1, 1, 2))
    assert first == second != other


def test_trials_are_counted_from_one(model: Rationalizer, documents: list[Document]) -> None:
    with pytest.raises(ValueError, match=r"^n_trials must be at least 1, got 0\.$"):
        try_to_break(model, model.explain(documents), 0)


def test_the_extractor_of_the_model_reads_the_first_changes_too(
    model: Rationalizer, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    smuggler = cheats.Smuggler(model.extractor, [])
    explained = model.explain(documents)

    def extract(smuggler: cheats.Smuggler, items: Sequence[Document]) -> list[Mask]:
        read.append(len(items))
        return smuggler.own.extract(items)

    monkeypatch.setattr(cheats.Smuggler, "extract", extract)
    try_to_break(replace(model, extractor=smuggler), explained, 2 * BATCH_SIZE)
    assert read == [ALONG, ALONG]  # before and after the change


def test_an_extractor_that_knows_old_documents_only_is_no_hindrance() -> None:
    held = _Held(HumanRationales({}))
    held.reads_along = True
    document = Document.from_words(("a", "b"))
    held.masks = {document: Mask.full(2)}
    assert held.extract([document]) == [Mask.full(2)]


def test_a_model_that_changes_documents_itself_cannot_be_held() -> None:
    held = _Held(HumanRationales({}))
    message = (
        "The model changed document 'x' before it chose words, so that no mask can be held. "
        "Change documents before they are given to the model."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        held.extract([Document.from_words(("a",), id="x")])
