"""Questions to a model, many of them answered in one go."""

from collections.abc import Sequence
from dataclasses import dataclass

from fresh.document import Document, Explanation, Mask, Saliency
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import curve_ratios, extract_with_scores, select_masks, with_ratio

Answer = tuple[Explanation, ...]
"""One explanation, or one for each length."""


@dataclass(frozen=True, slots=True)
class Question:
    """A document to be answered about, and how."""

    document: Document
    ratio: float | None = None
    """Share of the words to read, if not the model's own."""
    held: Mask | None = None
    """Read exactly these words; nothing is chosen."""
    every_length: bool = False
    """Answer from growing rationales."""


def answer(model: Rationalizer, questions: Sequence[Question]) -> list[Answer]:
    """Answer questions of all kinds with one pass of each network, each as if it had been asked alone."""
    open_questions = [question for question in questions if question.held is None]
    chosen = iter(_choose(model, open_questions))
    masks, saliencies = [], []
    for question in questions:
        mask, saliency = (question.held, None) if question.held is not None else next(chosen)
        masks.append(_cut_again(model, question, mask, saliency))
        saliencies.append(saliency)
    rationales = [question.document.cut(mask) for question, some in zip(questions, masks, strict=True) for mask in some]
    read = zip(rationales, model.predictor.predict(rationales), strict=True)
    return [
        tuple(Explanation(question.document, mask, *next(read), saliency) for mask in some)
        for question, some, saliency in zip(questions, masks, saliencies, strict=True)
    ]


def _choose(model: Rationalizer, questions: Sequence[Question]) -> list[tuple[Mask, Saliency | None]]:
    """Have the extractor choose words, at the model's own length."""
    if not questions:
        return []
    masks, saliencies = extract_with_scores(model.extractor, [question.document for question in questions])
    return list(zip(masks, saliencies, strict=True))


def _cut_again(model: Rationalizer, question: Question, mask: Mask, saliency: Saliency | None) -> list[Mask]:
    """Cut the same scores at the length that was asked for, or at every length."""
    if question.every_length:
        assert model.ratios is not None
        ratios = curve_ratios(len(question.document.words), *model.ratios)
    elif question.ratio is not None:
        ratios = [model.check_ratio(question.ratio)]
    else:
        return [mask]
    assert saliency is not None
    return [select_masks(with_ratio(model.extractor, ratio).discretizer, [saliency])[0] for ratio in ratios]
