"""Words switched off in many ways at once, and a linear model of what that does; through captum."""

import threading
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

_seeding = threading.Lock()
"""Held while captum draws: it uses the random generators that all threads share."""

KERNEL_WIDTH = 0.25
"""Cosine distance at which a variant counts little, as LIME has it for text."""


@dataclass(frozen=True, slots=True)
class Lime:
    """Ridge regression of the predicted label's probability on which words are there (Ribeiro et al., 2016).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: SupportModel
    samples: int = 200
    """Variants of each document that are read."""
    seed: int = 0
    """Seeds which words are switched off."""

    def __post_init__(self) -> None:
        check_effort(samples=self.samples)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        attribution = optional_import("captum.attr", "captum", "The scorer lime")
        kernels = optional_import("captum.attr._core.lime", "captum", "The scorer lime")
        models = optional_import("captum._utils.models.linear_model", "captum", "The scorer lime")
        near = kernels.get_exp_kernel_similarity_function("cosine", kernel_width=KERNEL_WIDTH)

        def method(forward: Callable[[Tensor], Tensor]) -> Any:
            return attribution.Lime(forward, models.SkLearnRidge(alpha=0.01), near)

        return _attribute_all(self.support, documents, method, self.samples, self.seed)


@dataclass(frozen=True, slots=True)
class KernelShap:
    """Shapley values of the words, estimated by weighted regression (Lundberg and Lee, 2017).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it. They sum to what
    the words add to that probability.
    """

    support: SupportModel
    samples: int = 200
    """Variants of each document that are read."""
    seed: int = 0
    """Seeds which words are switched off."""

    def __post_init__(self) -> None:
        check_effort(samples=self.samples)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        method = optional_import("captum.attr", "captum", "The scorer kernel_shap").KernelShap
        return _attribute_all(self.support, documents, method, self.samples, self.seed)


def _attribute_all(
    support: SupportModel,
    documents: Sequence[Document],
    method: Callable[[Callable[[Tensor], Tensor]], Any],
    samples: int,
    seed: int,
) -> list[Saliency]:
    """Ask one of captum's perturbation methods about document after document."""
    saliencies: list[Saliency] = []
    for document in documents:
        saliencies.append(_attribute(support, document, method, samples, seed))
        support.tell(1)
    return saliencies


def _attribute(
    support: SupportModel,
    document: Document,
    method: Callable[[Callable[[Tensor], Tensor]], Any],
    samples: int,
    seed: int,
) -> Saliency:
    """Ask one of captum's perturbation methods about the words of a document."""
    classifier = support.classifier
    [text] = classifier.words([text_of(document)])

    def read(kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        return classifier.probabilities_of(classifier.words.variants(text, kept))

    target = int(support.targets(torch.from_numpy(read(np.ones((1, text.n_read), dtype=np.bool_)))))

    def forward(kept: Tensor) -> Tensor:
        return torch.from_numpy(read(kept.bool().numpy())[:, target])

    words = torch.ones(1, text.n_read)
    if text.n_read == 1:  # one word alone bears all that changes
        with_it, without_it = forward(torch.tensor([[1.0], [0.0]])).tolist()
        return support.saliency(document, np.array([with_it - without_it]), target)
    with _seeding, torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(document, seed).integers(2**63)))
        np_state = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(int(generator(document, seed).integers(2**32)))  # noqa: NPY002
            scores = method(forward).attribute(words, n_samples=samples, perturbations_per_eval=samples)
        finally:
            np.random.set_state(np_state)  # noqa: NPY002
    return support.saliency(document, scores[0].double().numpy(), target)
