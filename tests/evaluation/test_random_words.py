import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.attribution.random import Random
from fresh.document import Document, Mask
from fresh.evaluation.baselines import _random_mask, is_contiguous, random_masks
from fresh.selection.discretizers import Contiguous, LearnedContiguous, TopK
from fresh.selection.extractors import Extractor, FullText, HumanRationales, SaliencyExtractor
from strategies import documents, masks


@given(documents(), st.data(), st.booleans())
def test_as_many_words_are_drawn_as_a_mask_keeps(document: Document, data: st.DataObject, contiguous: bool) -> None:
    mask = data.draw(masks(document))
    drawn = _random_mask(document, mask, contiguous)
    assert drawn.kept.sum() == mask.kept.sum()
    assert not contiguous or len(drawn.spans) <= 1
    assert _random_mask(document, mask, contiguous) == drawn


@given(documents(), st.data(), st.booleans())
def test_only_words_that_were_read_are_drawn(document: Document, data: st.DataObject, contiguous: bool) -> None:
    n_read = data.draw(st.integers(0, len(document.words)))
    mask = Mask(data.draw(masks(document)).kept & (np.arange(len(document.words)) < n_read))
    [drawn] = random_masks([document], [mask], contiguous, [n_read])
    assert drawn.kept.sum() == mask.kept.sum()
    assert not drawn.kept[n_read:].any()


def test_every_window_and_every_word_has_its_chance() -> None:
    mask = Mask(np.array([True, True, False, False]))
    many = [Document.from_words(["a", "b", "c", str(number)]) for number in range(300)]
    windows = {_random_mask(document, mask, contiguous=True).spans for document in many}
    assert windows == {((0, 2),), ((1, 3),), ((2, 4),)}
    pairs = {tuple(np.flatnonzero(_random_mask(document, mask, contiguous=False).kept)) for document in many}
    assert len(pairs) == 6


def test_text_order_is_kept() -> None:
    document = Document.from_words([f"{number:03}" for number in range(200)])
    [mask] = random_masks([document], [Mask(np.arange(200) < 50)], contiguous=False)
    rationale = document.cut(mask)
    assert list(rationale.words) == sorted(rationale.words)
    assert len(rationale.words) == 50


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
