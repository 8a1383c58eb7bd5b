"""The tagger: a network that learns from masks which words to keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fresh.attribution.support_model import saliency_of, text_of
from fresh.document import Document, Mask, Saliency
from fresh.metrics.plausibility import token_f1
from fresh.nn.batch import Batch, FlatRows, IntArray
from fresh.nn.heads import word_mask
from fresh.nn.token_classifier import Kind, TokenClassifier
from fresh.selection.discretizers import Discretizer
from fresh.selection.extractors import select_masks
from fresh.training.config import ClassifierConfig
from fresh.training.distributed import process_group
from fresh.training.feature_cache import CachedInputs
from fresh.training.fit import build, encode, make_loss
from fresh.training.loop import RunContext, TrainingJob, fit

CONTEXT = RunContext("tagger")

# Documents, and the words of each to keep; None for a document to learn nothing from.
Targets = Sequence[tuple[Document, Mask | None]]


@dataclass(frozen=True, slots=True)
class Tagger:
    """Scores each word by the probability that it is kept, without seeing any label."""

    network: TokenClassifier

    @classmethod
    def train(
        cls,
        train: Targets,
        dev: Sequence[tuple[Document, Mask]],
        discretizer: Discretizer,
        config: ClassifierConfig,
        kind: Kind = "words",
        context: RunContext = CONTEXT,
    ) -> Self:
        """Train a tagger on masks; the best epoch is the one whose masks agree best with those of dev.

        :param discretizer: Turns the scores into masks to choose the best epoch.
        :param kind: Tag each word by itself (words), or depending on its neighbors (chain).
        """
        network = build(TokenClassifier, kind, config)
        context = replace(context, feature_store=context.store(config.train))
        inputs = encode(network, [text_of(document) for document, _ in train], config.train, context)
        learned, losses = np.flatnonzero([mask is not None for _, mask in train]), make_tag_losses(network, train)
        group = process_group()  # processes share the documents of dev
        dev_documents, wanted = group.shard([document for document, _ in dev]), [mask.kept for _, mask in dev]
        dev_inputs = encode(network, [text_of(document) for document in dev_documents], config.train, context)

        def validate() -> float:
            saliencies = group.gather(_score(network, dev_documents, dev_inputs))
            return token_f1(wanted, [mask.kept for mask in select_masks(discretizer, saliencies)])

        loss = make_loss(network, inputs, lambda batch, output: losses(batch.numbers, *output), config.train)
        fit(TrainingJob(network, inputs, loss, validate, config.train, context, texts_of_epoch=lambda _epoch: learned))
        return cls(network)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score for each word, from 0 to 1; they explain no label."""
        return _score(self.network, documents)


def _score(
    network: TokenClassifier, documents: Sequence[Document], inputs: CachedInputs | None = None
) -> list[Saliency]:
    table = network.tokenizer([text_of(document) for document in documents]) if inputs is None else inputs.table
    saliencies: dict[int, Saliency] = {}
    # In single precision, words with probabilities close to 1 would tie, and the earlier one would win. With 16 bits,
    # 2 % (minilm) and 11 % (mpnet) of the words of SST tied. Apple's GPUs have no double precision.
    precision = torch.float32 if network.device.type == "mps" else torch.float64

    def work(numbers: IntArray, batch: Batch) -> None:
        outputs, n_words = network(batch)
        rows = network.probabilities(outputs.to(precision), n_words).cpu().double().numpy()
        for number, row in zip(numbers.tolist(), rows, strict=True):
            saliencies[number] = saliency_of(documents[number], row[: table.n_read[number]], target="")

    with torch.no_grad():
        network.for_each_batch(table, work, collate=None if inputs is None else inputs.collate)
    return [saliencies[number] for number in range(len(documents))]


def make_tag_losses(network: TokenClassifier, targets: Targets) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Make the function that computes the loss of texts, given their numbers, outputs and numbers of words.

    The loss of a text is a mean over its words, or 0 if it has no mask.
    """
    rows = [np.zeros(len(document.words)) if mask is None else mask.kept for document, mask in targets]
    flat = FlatRows(np.array([len(row) for row in rows], dtype=np.int64), network.device)
    values = torch.from_numpy(np.concatenate([*rows, np.zeros(1)]).astype(np.float32)).to(network.device)
    has_mask = torch.tensor([mask is not None for _, mask in targets], device=network.device)
    kept = np.concatenate([np.empty(0, np.bool_), *(mask.kept for _, mask in targets if mask is not None)])
    # Dropped words per kept word: at ratio 0.2, a tagger that keeps nothing would be right about four words of five.
    weight = torch.tensor(max(1.0, float((~kept).sum() / max(1, kept.sum()))), device=network.device)

    def losses(numbers: Tensor, outputs: Tensor, n_words: Tensor) -> Tensor:
        logits, divisors = network.keep_logits(outputs), n_words.clamp(min=1)  # what fills up a batch has no words
        places, is_word = flat.places(numbers, logits.shape[1])
        wanted = values[places] * is_word
        if network.head.chain is not None:
            return -network.head.chain.log_likelihood(logits, wanted, n_words) / divisors * has_mask[numbers]
        each = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none", pos_weight=weight)
        return (each * word_mask(n_words, logits.shape[1])).sum(1) / divisors * has_mask[numbers]

    return losses
