"""LIME and KernelSHAP by captum: a linear model of what leaving out words changes."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh._optional import optional_import
from fresh.attribution.config import check_effort
from fresh.attribution.random import generator
from fresh.attribution.support_model import SupportModel, text_of
from fresh.document import Document, Saliency

KERNEL_WIDTH = 0.25
"""Cosine distance at which a variant counts little, as in LIME for text."""

_seeding = threading.Lock()
"""Held while captum samples: it uses the random generators that all threads share."""

MakeMethod = Callable[[Callable[[Tensor], Tensor]], Any]


@dataclass(frozen=True, slots=True)
class _Surrogate(ABC):
    support: SupportModel
    samples: int = 200
    """Variants of each document that are read."""
    seed: int = 0
    """Seeds which words are left out."""

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
    def _method(self) -> MakeMethod:
        """Import captum's method, or say which extra installs it."""

    def _score_one(self, document: Document, make_method: MakeMethod) -> Saliency:
        classifier = self.support.classifier
        [text] = classifier.tokenizer([text_of(document)])

        def read(kept: NDArray[np.bool_]) -> NDArray[np.float64]:
            return classifier.probabilities_of(classifier.tokenizer.variants(text, kept))

        target = int(self.support.targets(torch.from_numpy(read(np.ones((1, text.n_read), dtype=np.bool_)))))

        def forward(kept: Tensor) -> Tensor:
            return torch.from_numpy(read(kept.bool().numpy())[:, target])

        if text.n_read == 1:  # one word alone explains all that changes
            with_it, without_it = forward(torch.tensor([[1.0], [0.0]])).tolist()
            return self.support.saliency(document, np.array([with_it - without_it]), target)
        # One call reads all variants, so that they are batched by length.
        settings = {"n_samples": self.samples, "perturbations_per_eval": self.samples}
        with _seeding, torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(document, self.seed).integers(2**63)))
            np_state = np.random.get_state()  # noqa: NPY002
            try:
                np.random.seed(int(generator(document, self.seed).integers(2**32)))  # noqa: NPY002
                scores = make_method(forward).attribute(torch.ones(1, text.n_read), **settings)
            finally:
                np.random.set_state(np_state)  # noqa: NPY002
        return self.support.saliency(document, scores[0].double().numpy(), target)


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

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. They sum to what
    the words add to that probability.
    """

    def _method(self) -> MakeMethod:
        method: MakeMethod = optional_import("captum.attr", "captum", "The scorer kernel_shap").KernelShap
        return method
