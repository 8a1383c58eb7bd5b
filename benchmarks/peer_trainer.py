"""The FRESH pipeline as one writes it with Hugging Face's Trainer."""

import inspect
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.utils.data import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from fresh.document import Example
from fresh.metrics.classification import macro_f1
from fresh.nn.encoder import BUNDLED, quiet
from measuring import Outcome, Settings, read_splits

BATCH_SIZE = 32
LONGEST = 512
"""Pieces that are read of a long text."""
ONE_IN = 5
"""One word in so many is kept."""

Labelled = list[tuple[list[str], str]]
"""Words of texts, and their labels."""


class Encoded(Dataset[dict[str, Any]]):
    """Tokenised texts with the numbers of their labels."""

    def __init__(self, tokenizer: Any, texts: Labelled, labels: Sequence[str]) -> None:
        encoded = tokenizer([words for words, _ in texts], is_split_into_words=True, truncation=True)
        numbers = [labels.index(label) for _, label in texts]
        self.features = [
            {name: encoded[name][row] for name in encoded} | {"label": number} for row, number in enumerate(numbers)
        ]

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.features[row]


@dataclass(frozen=True, slots=True)
class TrainerJob:
    """What all trainings of one run have in common."""

    settings: Settings
    labels: tuple[str, ...]
    tokenizer: Any
    by_length: bool
    seed: int
    learning_rate: float = 1e-4
    n_trained_layers: int | None = 2
    """Layers that learn, from the top; None for all, with the embeddings."""

    def arguments(self, folder: str) -> TrainingArguments:
        """Choose what the guides choose, and our numbers."""
        on_gpu = self.settings.device.startswith("cuda")
        return TrainingArguments(
            output_dir=folder,
            num_train_epochs=self.settings.epochs,
            per_device_train_batch_size=BATCH_SIZE,
            per_device_eval_batch_size=BATCH_SIZE,
            learning_rate=self.learning_rate,
            weight_decay=0.01,
            max_grad_norm=5.0,
            lr_scheduler_type="constant",
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            save_only_model=True,
            load_best_model_at_end=True,
            metric_for_best_model="macro_f1",
            bf16=on_gpu,
            use_cpu=not on_gpu,
            seed=self.seed,
            report_to="none",
            disable_tqdm=True,
            log_level="error",
            **(grouping() if self.by_length else {}),
        )

    def measure(self, answers: transformers.EvalPrediction) -> dict[str, float]:
        """Compute macro-F1 of what the trainer found."""
        gold = [self.labels[number] for number in answers.label_ids]
        given = [self.labels[number] for number in np.asarray(answers.predictions).argmax(-1)]
        return {"macro_f1": macro_f1(gold, given, self.labels)}

    def train(self, train: Labelled, dev: Labelled, folder: str) -> Trainer:
        """Train a classifier; the best epoch's weights are loaded in the end."""
        transformers.set_seed(self.seed)
        model = AutoModelForSequenceClassification.from_pretrained(
            source_of(self.settings.encoder), num_labels=len(self.labels), classifier_dropout=0.2, dtype=torch.float32
        )
        if self.n_trained_layers is not None:
            freeze(model, self.n_trained_layers)
        trainer = Trainer(
            model=model,
            args=self.arguments(folder),
            train_dataset=Encoded(self.tokenizer, train, self.labels),
            eval_dataset=Encoded(self.tokenizer, dev, self.labels),
            processing_class=self.tokenizer,
            data_collator=DataCollatorWithPadding(self.tokenizer),
            compute_metrics=self.measure,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer

    def test(self, trainer: Trainer, test: Labelled) -> float:
        """Measure a trained classifier."""
        found = trainer.predict(Encoded(self.tokenizer, test, self.labels))
        assert found.metrics is not None
        return float(found.metrics["test_macro_f1"])


def source_of(encoder: str) -> str:
    """Find the encoder's files."""
    return str(BUNDLED[encoder]()) if encoder in BUNDLED else encoder


def grouping() -> dict[str, Any]:
    """Ask for batches of like length, by the name that the installed version has for it."""
    known = inspect.signature(TrainingArguments).parameters
    if "train_sampling_strategy" in known:
        return {"train_sampling_strategy": "group_by_length"}
    return {"group_by_length": True}


def freeze(model: Any, n_trained_layers: int) -> None:
    """Let only the top layers, the pooler and the head learn."""
    body = model.base_model
    body.requires_grad_(False)
    layers = body.encoder.layer
    for layer in layers[len(layers) - n_trained_layers :]:
        layer.requires_grad_(True)
    if isinstance(getattr(body, "pooler", None), nn.Module):
        body.pooler.requires_grad_(True)


def attention_scores(model: Any, tokenizer: Any, texts: Labelled) -> list[list[float]]:
    """Sum, for each word, what the start token's attention in the last layer gives to its pieces; mean over heads."""
    model.eval()
    model.set_attn_implementation("eager")
    scores: list[list[float]] = []
    for start in range(0, len(texts), BATCH_SIZE):
        words = [words for words, _ in texts[start : start + BATCH_SIZE]]
        pieces = tokenizer(words, is_split_into_words=True, truncation=True, padding=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**pieces.to(model.device), output_attentions=True)
        table = output.attentions[-1].mean(1)[:, 0].cpu().tolist()  # (batch, pieces)
        for row, values in enumerate(table):
            sums = [0.0] * len(words[row])
            for place, word in enumerate(pieces.word_ids(row)):
                if word is not None:
                    sums[word] += values[place]
            scores.append(sums)
    return scores


def best_words(scores: list[float]) -> list[int]:
    """Find the best fifth of the words, in reading order."""
    n_kept = math.ceil(len(scores) / ONE_IN)
    return sorted(sorted(range(len(scores)), key=lambda place: -scores[place])[:n_kept])


def cut(texts: Labelled, scores: list[list[float]]) -> Labelled:
    """Keep the best fifth of the words of each text."""
    rationales: Labelled = []
    for (words, label), values in zip(texts, scores, strict=True):
        best = set(best_words(values))
        rationales.append(([word for place, word in enumerate(words) if place in best], label))
    return rationales


def labelled(examples: Sequence[Example]) -> Labelled:
    """Take plain words and labels."""
    return [(list(example.document.words), example.label) for example in examples]


def run_pipeline(settings: Settings, by_length: bool, seed: int) -> Outcome:
    """Train support model and predictor on SST, and answer its test sentences."""
    splits = read_splits(settings)
    train, dev, test = (labelled(part) for part in (splits.train, splits.dev, splits.test))
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, quiet():
        tokenizer = AutoTokenizer.from_pretrained(source_of(settings.encoder))
        job = TrainerJob(settings, splits.labels, tokenizer, by_length, seed)
        support = job.train(train, dev, f"{folder}/support").model
        cuts = [cut(part, attention_scores(support, tokenizer, part)) for part in (train, dev, test)]
        predictor = job.train(cuts[0], cuts[1], f"{folder}/predictor")
        score = job.test(predictor, cuts[2])
        seconds = time.perf_counter() - started
    return Outcome(seconds, score)


def run_long(settings: Settings, n: int, by_length: bool, seed: int) -> Outcome:
    """Train all layers on long reviews; the macro-F1 is that on dev."""
    splits = read_splits(replace(settings, documents=n), "movies")
    train, dev = labelled(splits.train), labelled(splits.dev)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, quiet():
        tokenizer = AutoTokenizer.from_pretrained(source_of(settings.encoder), model_max_length=LONGEST)
        job = TrainerJob(settings, splits.labels, tokenizer, by_length, seed, 3e-5, None)
        trainer = job.train(train, dev, folder)
        seconds = time.perf_counter() - started
        return Outcome(seconds, job.test(trainer, dev))
