"""Integrated gradients and LIME as one calls captum: sentence by sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from captum._utils.models.linear_model import SkLearnRidge
from captum.attr import LayerIntegratedGradients
from captum.attr import Lime as CaptumLime
from captum.attr._core.lime import get_exp_kernel_similarity_function
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from fresh.nn.encoder import quiet
from measuring import Outcome, Settings, clocked
from our_side import SAMPLES, STEPS, sentences, warm_up
from peer_trainer import best_words

Scores = list[float]
"""One score a word."""


def load(settings: Settings, folder: Path) -> tuple[Any, Any]:
    """Read model and tokenizer."""
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(folder / "peer").to(settings.device).eval()
        return model, AutoTokenizer.from_pretrained(folder / "peer")


def score_sentences(settings: Settings, n: int, score: Callable[[list[str]], Scores]) -> Outcome:
    """Score sentences one after the other and keep the best words of each."""
    texts, _ = sentences(settings, n)
    for text in warm_up(settings)[:2]:
        score(text.split())
    scores, seconds = clocked(settings.device, lambda: [score(text.split()) for text in texts])
    return Outcome(seconds, chosen=tuple(tuple(best_words(values)) for values in scores))


def run_integrated_gradients(settings: Settings, folder: Path, n: int, _seed: int) -> Outcome:
    """Attribute the predicted label's probability to the word embeddings, on the way from mask pieces."""
    model, tokenizer = load(settings, folder)

    def forward(piece_ids: Tensor, mask: Tensor, target: int) -> Tensor:
        return torch.softmax(model(piece_ids, attention_mask=mask).logits, dim=-1)[:, target]

    method = LayerIntegratedGradients(forward, model.get_input_embeddings())

    def score(words: list[str]) -> Scores:
        pieces = tokenizer(words, is_split_into_words=True, return_tensors="pt").to(settings.device)
        piece_ids, mask, owners = pieces["input_ids"], pieces["attention_mask"], pieces.word_ids(0)
        with torch.no_grad():
            target = int(model(piece_ids, attention_mask=mask).logits.argmax())
        baseline = piece_ids.clone()
        baseline[0, [place for place, word in enumerate(owners) if word is not None]] = tokenizer.mask_token_id
        found = method.attribute(
            piece_ids, baseline, additional_forward_args=(mask, target), n_steps=STEPS, method="riemann_middle"
        )
        return by_word(found.sum(-1)[0].tolist(), owners, len(words))

    return score_sentences(settings, n, score)


def by_word(values: list[float], owners: list[int | None], n_words: int) -> Scores:
    """Add up what the pieces of each word have."""
    sums = [0.0] * n_words
    for value, word in zip(values, owners, strict=True):
        if word is not None:
            sums[word] += value
    return sums


def run_lime(settings: Settings, folder: Path, n: int, at_once: int, seed: int) -> Outcome:
    """Fit a linear model of the predicted label's probability on which words are left in the sentence.

    :param at_once: Variants of a sentence that are read together; captum's default is 1.
    """
    model, tokenizer = load(settings, folder)
    near = get_exp_kernel_similarity_function("cosine", kernel_width=0.25)
    torch.manual_seed(seed)

    def probabilities(texts: list[list[str]]) -> Tensor:
        pieces = tokenizer(texts, is_split_into_words=True, padding=True, return_tensors="pt").to(settings.device)
        with torch.no_grad():
            return torch.softmax(model(**pieces).logits, dim=-1).cpu()

    def score(words: list[str]) -> Scores:
        target = int(probabilities([words])[0].argmax())
        if len(words) == 1:  # nothing to compare, and captum's regression needs two
            return [1.0]

        def forward(kept: Tensor) -> Tensor:
            texts = [[word for word, flag in zip(words, row, strict=True) if flag] for row in kept.bool().tolist()]
            return probabilities(texts)[:, target]

        method = CaptumLime(forward, SkLearnRidge(alpha=0.01), near)
        found = method.attribute(torch.ones(1, len(words)), n_samples=SAMPLES, perturbations_per_eval=at_once)
        values: Scores = found[0].tolist()
        return values

    return score_sentences(settings, n, score)
