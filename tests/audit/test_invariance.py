import re
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cheats
from fresh.audit.invariance import (
    KINDS,
    N_READ_ALONG,
    Change,
    _batches,
    _show,
    change_document,
    check_invariance,
    possible_changes,
)
from fresh.data.splits import Splits
from fresh.document import Document, Mask
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from strategies import documents, masks

# Changes of a document

FILM = Document.from_words(("a", "good", "film"), ("praise",), "film")
MIDDLE = Mask.from_spans([(1, 2)], 3)


def change(document: Document, mask: Mask, kind: str, seed: int = 0) -> Change:
    return change_document(document, mask, kind, ("it", "was", "interminable"), np.random.default_rng(seed))


@given(documents(), st.integers(0, 99), st.data())
def test_changes_touch_dropped_words_and_never_the_rationale(
    document: Document, seed: int, data: st.DataObject
) -> None:
    mask = data.draw(masks(document))
    n_words, n_dropped = len(mask), int((~mask.kept).sum())
    limits = {
        "replaced": (n_words, n_words),
        "deleted": (max(1, n_words - n_dropped), n_words - 1),
        "multiplied": (n_words + n_dropped, n_words + 4 * n_dropped),
        "added": (n_words + 1, 2 * n_words + 1),
    }
    for kind in possible_changes(mask):
        found, (fewest, most) = change(document, mask, kind, seed), limits[kind]
        assert (found.kind, found.document.id) == (kind, document.id)
        assert found.document.cut(found.mask) == document.cut(mask)
        assert found.document.words != document.words
        assert fewest <= len(found.mask) <= most
        if kind == "replaced":
            assert found.mask == mask
            rows = zip(document.words, found.document.words, mask.kept, strict=True)
            assert all((old == new) if kept else (len(old) != len(new)) for old, new, kept in rows)


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([True, False], KINDS),
        ([False, False], KINDS),
        ([False], ("replaced", "multiplied", "added")),
        ([True, True], ("added",)),
    ],
)
def test_a_mask_leaves_room_for_some_changes(kept: list[bool], expected: Sequence[str]) -> None:
    assert possible_changes(Mask(np.array(kept))) == list(expected)


def test_words_are_from_the_corpus_or_made_up_and_at_times_all_dropped_ones_are_deleted() -> None:
    words = {change(FILM, MIDDLE, "replaced", seed).document.words[0] for seed in range(60)}
    assert words > {"it", "was", "interminable"}
    assert len(words) > 20
    assert "a" not in words
    assert {len(change(FILM, MIDDLE, "deleted", seed).mask) for seed in range(20)} == {1, 2}
    repeated = change(FILM, MIDDLE, "multiplied").document.words
    place = repeated.index("good")
    assert (set(repeated[:place]), set(repeated[place + 1 :])) == ({"a"}, {"film"})


# Trials


@pytest.fixture(scope="module")
def texts(toy: Splits) -> list[Document]:
    return [example.document for example in toy.test]


def test_nothing_breaks_an_honest_model(model: Rationalizer, texts: list[Document]) -> None:
    verdict = check_invariance(model, model.explain(texts), 700)
    assert (verdict.name, verdict.found) == ("invariance", "holds")
    assert re.match(r"Words outside the rationale were changed 700 times.*bit for bit", verdict.says)
    shown = r"(\d+) replaced, (\d+) deleted, (\d+) multiplied, (\d+) added"
    [counts] = re.findall(
        rf"^700 trials on 32 documents; dropped words {shown}; 0 counterexamples\.$", verdict.evidence[0]
    )
    assert sum(map(int, counts)) == 700
    assert min(map(int, counts)) > 100


def test_a_predictor_that_is_told_on_the_side_is_caught(model: Rationalizer, texts: list[Document]) -> None:
    passed: list[int] = []
    receiver = cheats.Answering(model.predictor.classifier, cheats.receiver(passed))
    dishonest = replace(model, extractor=cheats.Smuggler(model.extractor, passed), predictor=receiver)
    assert check_invariance(dishonest, dishonest.explain(texts), 200).found == "broken"


def test_a_predictor_that_knows_documents_by_name_learns_nothing_from_trials(
    model: Rationalizer, texts: list[Document]
) -> None:
    names: set[str] = set()

    def listen(_: int, rationale: Rationale) -> Prediction:
        names.add(rationale.id)
        return cheats.sure("neg")

    listening = replace(model, predictor=cheats.Answering(model.predictor.classifier, listen))
    explained = model.explain(texts)
    check_invariance(listening, explained, 40)
    assert names
    assert not {document.id for document in texts} & names


def test_a_counterexample_is_shown_whole() -> None:
    before, after = Document.from_words(("a", "good", "film"), ("why",), "x"), Document.from_words(("good",), ("why",))
    item = cheats.explained(before, MIDDLE, cheats.sure("pos"))
    changed = cheats.explained(after, Mask.full(1), cheats.sure("neg"))
    assert _show(item, Change("deleted", after, Mask.full(1)), item, changed) == (
        "document 'x', dropped words deleted; selected words are in brackets:",
        "  before: a [good] film",
        "  after: [good]",
        "  mask before: ((1, 2),) of 3 words",
        "  mask after: ((0, 1),) of 1 word",
        "  query: why",
        "  rationale before: good",
        "  rationale after: good",
        "  prediction before: pos (neg 0.0, pos 1.0)",
        "  prediction after: neg (neg 1.0, pos 0.0)",
    )


@given(st.integers(1, 600), st.integers(1, 2000))
def test_documents_batches(n_documents: int, n_trials: int) -> None:
    groups = list(_batches(n_documents, n_trials, np.random.default_rng(0)))
    places = [place for group in groups for place in group]
    counts = np.bincount(places, minlength=n_documents)
    assert len(places) == n_trials
    assert counts.max() - counts.min() <= 1
    assert max(map(len, groups)) <= BATCH_SIZE
    a_round = n_documents * max(1, BATCH_SIZE // n_documents)
    n_rounds, n_groups = -(-n_trials // a_round), 1 + -(-max(0, a_round - N_READ_ALONG) // BATCH_SIZE)
    assert len(set(groups)) <= n_groups + (n_rounds > 1)  # so that documents are not explained anew before each change


def test_the_same_seed_draws_the_same(model: Rationalizer, texts: list[Document]) -> None:
    explained = model.explain(texts)
    first, second, other = (check_invariance(model, explained, 50, seed).evidence for seed in (1, 1, 2))
    assert first == second != other


def test_the_extractor_of_the_model_reads_the_first_changes_too(model: Rationalizer, texts: list[Document]) -> None:
    extractor = Mock(wraps=model.extractor)
    check_invariance(replace(model, extractor=extractor), model.explain(texts), 2 * BATCH_SIZE)
    read = [len(call.args[0]) for call in extractor.extract.call_args_list]
    assert read == [N_READ_ALONG, N_READ_ALONG]  # before and after the change
