"""A trained extractor: a network that learnt from masks which words to keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fresh.attribution.support_model import text_of
from fresh.document import Document, Mask, Saliency
from fresh.metrics.plausibility import token_f1
from fresh.nn.batch import Batch, Collator, IntArray, Layout, TokenTable
from fresh.nn.batching import run_batches
from fresh.nn.device import choose_device
from fresh.nn.encoder import load_encoder
from fresh.nn.heads import word_mask
from fresh.nn.token_classifier import Kind, TokenClassifier, WordValues
from fresh.selection.discretizers import Discretizer
from fresh.selection.extractors import select_masks
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.distributed import process_group
from fresh.training.fit import TextNumbers, describe, encode, make_loss
from fresh.training.loop import RunContext, TrainingJob, fit, fixed_seed

CONTEXT = RunContext("tagger")

MaskedDocuments = Sequence[tuple[Document, Mask]]
"""Documents, and which of their words are to be kept."""


@dataclass(frozen=True, slots=True)
class Tagger:
    """Scores words by how much they are to be kept, without a look at any label."""

    network: TokenClassifier

    @classmethod
    def train(
        cls,
        train: MaskedDocuments,
        dev: MaskedDocuments,
        discretizer: Discretizer,
        config: ClassifierConfig,
        kind: Kind = "words",
        context: RunContext = CONTEXT,
        only: IntArray | None = None,
    ) -> Self:
        """Train it on masks; the state wins that finds most of those of dev.

        :param discretizer: What will cut the scores; the state is chosen with that cut in force.
        :param only: Numbers of the documents to learn from; all if not given.
        :param kind: Tag each word by itself (words), or beside its neighbours (chain).
        """
        network = build_tagger(kind, config)
        context = replace(context, feature_store=context.store(config.train))
        inputs = encode(network, [text_of(document) for document, _ in train], config.train, context)
        masks = [mask for _, mask in train]
        job = TrainingJob(
            network,
            inputs.table.lengths,
            make_loss(network, inputs, _make_losses(network, masks, only), config.train),
            _make_validate(network, dev, discretizer, config.train, context),
            config.train,
            context,
            inputs.device,
            can_record=config.network.long != "chunk",
            texts_of_epoch=None if only is None else lambda _epoch: only,
        )
        context.progress.say(describe(network, inputs, job))
        fit(job)
        return cls(network)

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, from 0 to 1; they explain no label."""
        table = self.network.tokenizer([text_of(document) for document in documents])
        gather = Collator(table, self.network.device, self.network.padding)
        return _score_table(self.network, table, documents, gather)


def _score_table(
    network: TokenClassifier,
    table: TokenTable,
    documents: Sequence[Document],
    read: Callable[[IntArray], Batch | tuple[Layout, Tensor]],
) -> list[Saliency]:
    """Score the words of encoded documents.

    :param read: Puts some of them, given by their numbers, side by side.
    """
    found: dict[int, Saliency] = {}
    digits = torch.float32 if network.device.type == "mps" else torch.float64  # with few, all that is likely ties

    def work(numbers: IntArray) -> None:
        outputs, n_words = network(read(numbers))
        rows = network.probabilities(outputs.to(digits), n_words).cpu().double().numpy()
        for number, row in zip(numbers.tolist(), rows, strict=True):
            n_read, whole = int(table.n_read[number]), np.zeros(len(documents[number].words))
            whole[:n_read] = row[:n_read]
            found[number] = Saliency(whole, "", documents[number].id, n_read)

    with torch.no_grad():
        run_batches(table.lengths, network.device, work, network.budget_share)
    return [found[number] for number in range(len(documents))]


def build_tagger(kind: Kind, config: ClassifierConfig) -> TokenClassifier:
    """Make a network that has learnt nothing yet but what its encoder knows."""
    with fixed_seed(config.train.seed):
        encoder = load_encoder(config.network.encoder, config.network.pooling, config.train.attention_dropout)
        network = TokenClassifier(encoder, kind, config.network)
    return network.to(choose_device(config.train.device))


def _make_losses(
    network: TokenClassifier, masks: Sequence[Mask], only: IntArray | None
) -> Callable[[TextNumbers, tuple[Tensor, Tensor]], Tensor]:
    """Make the function that computes the loss of each text against its mask."""
    targets = WordValues.of([mask.kept for mask in masks], network.device)
    learned = masks if only is None else [masks[number] for number in only.tolist()]
    weight = torch.tensor(positive_weight(learned), device=network.device)

    def losses(batch: TextNumbers, output: tuple[Tensor, Tensor]) -> Tensor:
        outputs, n_words = output
        wanted = targets.take(batch.numbers, batch.width)
        return tag_losses(network, outputs.squeeze(-1), wanted, n_words, weight)

    return losses


def positive_weight(masks: Sequence[Mask]) -> float:
    """Say how many words are dropped for each that is kept, at least 1: so many times more a kept one counts."""
    n_words, n_kept = sum(map(len, masks)), sum(int(mask.kept.sum()) for mask in masks)
    return max(1.0, (n_words - n_kept) / max(1, n_kept))


def tag_losses(network: TokenClassifier, logits: Tensor, wanted: Tensor, n_words: Tensor, weight: Tensor) -> Tensor:
    """Compute the loss of each text, a mean over its words. Shape: (texts,).

    :param weight: How many times more a word counts that is to be kept, where each word counts by itself.
    """
    each = n_words.clamp(min=1)
    if network.head.chain is not None:
        return -network.head.chain.log_likelihood(logits, wanted, n_words) / each
    losses = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none", pos_weight=weight)
    return (losses * word_mask(n_words, logits.shape[1])).sum(1) / each


def _make_validate(
    network: TokenClassifier, dev: MaskedDocuments, discretizer: Discretizer, config: TrainConfig, context: RunContext
) -> Callable[[], float]:
    """Make the function that measures how much of the masks of dev is found; several processes share the documents."""
    group = process_group()
    documents, wanted = group.shard([document for document, _ in dev]), [mask.kept for _, mask in dev]
    inputs = encode(network, [text_of(document) for document in documents], config, context)

    def validate() -> float:
        saliencies = group.gather(_score_table(network, inputs.table, documents, inputs.collate))
        return token_f1(wanted, [mask.kept for mask in select_masks(discretizer, saliencies)])

    return validate
