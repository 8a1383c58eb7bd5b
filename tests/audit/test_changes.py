import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fresh.audit.changes import CHANGES, Drawing, change, kinds_for
from fresh.document import Document, Mask
from strategies import documents, masks

FILM = Document.from_words(("a", "good", "film"), ("praise",), "film")
MIDDLE = Mask.from_spans([(1, 2)], 3)


def drawing(seed: int = 0) -> Drawing:
    return Drawing(("it", "was", "interminable"), np.random.default_rng(seed))


@given(documents(), st.sampled_from(list(CHANGES)), st.integers(0, 99), st.data())
def test_no_change_touches_the_rationale(document: Document, kind: str, seed: int, data: st.DataObject) -> None:
    mask = data.draw(masks(document))
    assume(kind in kinds_for(mask))
    found = change(
        document,
        mask,
        kind,
        drawing(seed),
    )
    assert found.kind == kind
    assert found.document.cut(found.mask) == document.cut(mask)
    assert found.document.id == document.id
    assert found.document.words != document.words


@given(documents(), st.integers(0, 99), st.data())
def test_replaced_words_have_other_lengths(document: Document, seed: int, data: st.DataObject) -> None:
    mask = data.draw(masks(document))
    found = change(document, mask, "replaced", drawing(seed))
    assert found.mask == mask
    for old, new, kept in zip(document.words, found.document.words, mask.kept, strict=True):
        assert (old == new) if kept else (len(old) != len(new))


@given(documents(), st.integers(0, 99), st.data())
def test_dropped_words_become_fewer_or_more(document: Document, seed: int, data: st.DataObject) -> None:
    mask = data.draw(masks(document))
    n_words, n_dropped = len(mask), int((~mask.kept).sum())
    sizes = {kind: len(change(document, mask, kind, drawing(seed)).mask) for kind in kinds_for(mask)}
    assert n_words < sizes["added"] <= 2 * n_words + 1
    if n_dropped:
        assert n_words + n_dropped <= sizes["multiplied"] <= n_words + 4 * n_dropped
        assert sizes["replaced"] == n_words
    if "deleted" in sizes:
        assert max(1, n_words - n_dropped) <= sizes["deleted"] < n_words


def test_all_dropped_words_are_deleted_at_times() -> None:
    sizes = {len(change(FILM, MIDDLE, "deleted", drawing(seed)).mask) for seed in range(20)}
    assert sizes == {1, 2}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([True, False], ["replaced", "deleted", "multiplied", "added"]),
        ([False, False], ["replaced", "deleted", "multiplied", "added"]),
        ([False], ["replaced", "multiplied", "added"]),
        ([True, True], ["added"]),
    ],
)
def test_a_mask_leaves_room_for_some_changes(kept: list[bool], expected: list[str]) -> None:
    assert kinds_for(Mask(np.array(kept))) == expected


def test_words_come_from_the_corpus_and_are_made_up() -> None:
    words = {change(FILM, MIDDLE, "replaced", drawing(seed)).document.words[0] for seed in range(60)}
    assert words > {"it", "was", "interminable"}
    assert len(words) > 20
    assert "a" not in words


def test_a_multiplied_word_stands_in_its_place() -> None:
    words = change(FILM, MIDDLE, "multiplied", drawing()).document.words
    place = words.index("good")
    assert set(words[:place]) == {"a"}
    assert set(words[place + 1 :]) == {"film"}
