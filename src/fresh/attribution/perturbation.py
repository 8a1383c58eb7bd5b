"""Scores from the predictions without some words: occlusion, and LIME and KernelSHAP with captum."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh._optional import optional_import
from fresh.attribution.config import Evidence, check_effort
from fresh.attribution.random import generator
from fresh.attribution.support_model import SupportModel, saliency_of, text_of
from fresh.document import Document, Saliency
from fresh.nn.tokenizer import ranges

# Words of documents that occlusion scores together: each word is one more variant to read.
WORDS_AT_ONCE = 2048
# Cosine distance at which a variant has little weight, as in LIME for text.
KERNEL_WIDTH = 0.25

_seeding = threading.Lock()  # held while captum samples with the random generators that all threads share

MakeMethod = Callable[[Callable[[Tensor], Tensor]], Any]


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Probability of the predicted label with all words, minus that without one word (Zeiler and Fergus, 2014).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: SupportModel
    evidence: Evidence = "for"
    """Score words for the label highest, or words for and against it (the absolute value of their scores)."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        return [saliency for group in _group(documents) for saliency in self._score_group(group)]

    def _score_group(self, documents: Sequence[Document]) -> list[Saliency]:
        classifier, texts = self.support.classifier, [text_of(document) for document in documents]
        n_read = classifier.tokenizer(texts).n_read
        n_variants = n_read + 1
        # The first variant of a text (-1) lacks no word, the second lacks word 0, and so on.
        missing = ranges(np.full(len(texts), -1), n_variants)
        encode = classifier.tokenizer.encode_subsets(texts)
        kept = np.arange(n_read.max()) != missing[:, None]  # (variants, words)
        table = classifier.probabilities_of(encode(np.repeat(np.arange(len(texts)), n_variants), kept))
        saliencies: list[Saliency] = []
        for document, rows in zip(documents, np.split(table, np.cumsum(n_variants)[:-1]), strict=True):
            target = int(self.support.targets(torch.from_numpy(rows[:1])))
            lost = rows[0, target] - rows[1:, target]
            # Equal neighbors tie: the text is the same without either. Rows of a batch differ in the last digits.
            for place in range(1, len(lost)):
                if document.words[place] == document.words[place - 1]:
                    lost[place] = lost[place - 1]
            saliencies.append(saliency_of(document, lost, classifier.labels[target], self.evidence))
        self.support.report(len(documents))
        return saliencies


def _group(documents: Sequence[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    for document in documents:
        if group and sum(len(item.words) for item in group) + len(document.words) > WORDS_AT_ONCE:
            yield group
            group = []
        group.append(document)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Surrogate(ABC):
    support: SupportModel
    samples: int = 200
    """Number of variants of each document that are read."""
    seed: int = 0
    """Seed for sampling the words that are left out."""
    evidence: Evidence = "for"
    """Score words for the label highest, or words for and against it (the absolute value of their scores)."""

    def __post_init__(self) -> None:
        check_effort(samples=self.samples)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        make_method = self._method()
        saliencies: list[Saliency] = []
        for document in documents:
            saliencies.append(self._score_one(document, make_method))
            self.support.report(1)
        return saliencies

    @abstractmethod
    def _method(self) -> MakeMethod: ...

    def _score_one(self, document: Document, make_method: MakeMethod) -> Saliency:
        classifier, text = self.support.classifier, text_of(document)
        [n_read] = classifier.tokenizer([text]).n_read.tolist()
        encode = classifier.tokenizer.encode_subsets([text])

        def read(kept: NDArray[np.bool_]) -> NDArray[np.float64]:
            return classifier.probabilities_of(encode(np.zeros(len(kept), dtype=np.int64), kept))

        target = int(self.support.targets(torch.from_numpy(read(np.ones((1, n_read), dtype=np.bool_)))))

        def forward(kept: Tensor) -> Tensor:
            return torch.from_numpy(read(kept.bool().numpy())[:, target])

        if n_read == 1:  # there is nothing to regress
            with_it, without_it = forward(torch.tensor([[1.0], [0.0]])).tolist()
            scores = np.array([with_it - without_it])
            return saliency_of(document, scores, classifier.labels[target], self.evidence)
        # One call reads all variants, so that they are batched by length.
        settings = {"n_samples": self.samples, "perturbations_per_eval": self.samples}
        # captum turns gradients off, and an interrupt at the end of its block would leave them off in this thread: the
        # end of this block turns them on again.
        with _seeding, torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(int(generator(document, self.seed).integers(2**63)))
            np_state = np.random.get_state()  # noqa: NPY002
            try:
                np.random.seed(int(generator(document, self.seed).integers(2**32)))  # noqa: NPY002
                scores = make_method(forward).attribute(torch.ones(1, n_read), **settings)
            finally:
                np.random.set_state(np_state)  # noqa: NPY002
        return saliency_of(document, scores[0].double().numpy(), classifier.labels[target], self.evidence)


@dataclass(frozen=True, slots=True)
class Lime(_Surrogate):
    """Ridge regression of the predicted label's probability on which words are present (Ribeiro et al., 2016).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    def _method(self) -> MakeMethod:
        attribution = optional_import("captum.attr", "captum", "The scorer lime")
        kernels = optional_import("captum.attr._core.lime", "captum", "The scorer lime")
        models = optional_import("captum._utils.models.linear_model", "captum", "The scorer lime")
        similarity = kernels.get_exp_kernel_similarity_function("cosine", kernel_width=KERNEL_WIDTH)
        return lambda forward: attribution.Lime(forward, models.SkLearnRidge(alpha=0.01), similarity)


@dataclass(frozen=True, slots=True)
class KernelShap(_Surrogate):
    """Shapley values of the words, estimated by weighted regression (Lundberg and Lee, 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. The scores sum to
    the difference in that probability between all words and none.
    """

    def _method(self) -> MakeMethod:
        method: MakeMethod = optional_import("captum.attr", "captum", "The scorer kernel_shap").KernelShap
        return method
