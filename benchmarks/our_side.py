"""Our side of each row: the library as a user calls it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from fresh.attribution import Scorer, make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.document import Document, Example, Saliency
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import train
from fresh.metrics.classification import macro_f1
from fresh.nn.encoder import quiet
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from measuring import Outcome, RowError, Settings, clocked, read_splits, spread

RATIO = 0.2
STEPS = 20
SAMPLES = 200
TWO_LAYERS = {"layers": 2, "pooling": "start", "learning_rate": 1e-4}
"""As the peers are trained."""
TRAINED_ON = 2000
"""Documents on which the model that is asked to explain was trained."""


def configure(settings: Settings, seed: int, epochs: int | None = None) -> FreshConfig:
    """Make the settings of a training that never stops early."""
    epochs = epochs or settings.epochs
    values = {"scorer": "attention", "ratio": RATIO, "epochs": epochs, "patience": epochs, "seed": seed, **TWO_LAYERS}
    return from_mapping(FreshConfig, {**values, "device": settings.device, "encoder": settings.encoder})


def run_pipeline(settings: Settings, seed: int) -> Outcome:
    """Train support model and predictor on SST, and answer its test sentences."""
    splits = read_splits(settings)
    config = configure(settings, seed)
    started = time.perf_counter()
    model, training = clocked(settings.device, lambda: train(splits, config).model)
    explained, explaining = clocked(settings.device, lambda: model.explain([item.document for item in splits.test]))
    seconds = time.perf_counter() - started
    gold = [example.label for example in splits.test]
    score = macro_f1(gold, [explanation.prediction.label for explanation in explained], splits.labels)
    return Outcome(seconds, score, facts={"training_seconds": training, "test_seconds": explaining})


def run_support(settings: Settings, corpus: str, seed: int) -> Outcome:
    """Train a support model alone; its macro-F1 is that on dev."""
    splits = read_splits(settings, corpus)
    config = configure(settings, seed)
    support, seconds = clocked(settings.device, lambda: SupportModel.train(splits.train, splits.dev, config))
    score = score_on(support, splits.dev, splits.labels)
    return Outcome(seconds, score, facts={"n_train": len(splits.train), "epochs": settings.epochs})


def run_long(settings: Settings, n: int, seed: int) -> Outcome:
    """Train all layers of a support model on long reviews; its macro-F1 is that on dev."""
    splits = read_splits(replace(settings, documents=n), "movies")
    values = {"layers": "all", "pooling": "start", "long": "truncate", "epochs": settings.epochs, "seed": seed}
    given = {**values, "patience": settings.epochs, "device": settings.device, "encoder": settings.encoder}
    config = from_mapping(FreshConfig, given)
    support, seconds = clocked(settings.device, lambda: SupportModel.train(splits.train, splits.dev, config))
    return Outcome(seconds, score_on(support, splits.dev, splits.labels))


def score_on(support: SupportModel, examples: Sequence[Example], labels: Sequence[str]) -> float:
    """Measure the macro-F1 of a support model."""
    answers = support.predict([example.document for example in examples])
    return macro_f1([example.label for example in examples], [answer.label for answer in answers], labels)


def prepare(settings: Settings, folder: Path) -> Outcome:
    """Train a model that explains, and write it for us (ours) and for transformers (peer)."""
    splits = read_splits(settings)
    splits = type(splits)(spread(splits.train, TRAINED_ON), splits.dev, splits.test)
    model, seconds = clocked(settings.device, lambda: train(splits, configure(settings, 0, epochs=1)).model)
    model.save_pretrained(folder / "ours")
    write_for_transformers(support_of(model), folder / "peer")
    return Outcome(seconds)


def support_of(model: Rationalizer) -> SupportModel:
    """Take the support model of a rationalizer."""
    assert isinstance(model.extractor, SaliencyExtractor)
    assert model.extractor.support is not None
    return model.extractor.support


def write_for_transformers(support: SupportModel, folder: Path) -> None:
    """Write a support model as transformers' own classifier, and see that both say the same."""
    classifier = support.classifier
    folder.mkdir()
    classifier.save(folder)
    names = {"num_labels": len(classifier.labels), "id2label": dict(enumerate(classifier.labels))}
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(folder, **names).eval()
        model.classifier.load_state_dict(load_file(folder / "head.safetensors"))
        model.save_pretrained(folder)
    words = ("a", "lovely", "film", "with", "a", "dull", "ending")
    pieces = classifier.encoder.tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        theirs = model(**pieces).logits.softmax(-1)[0].tolist()
    [answer] = support.predict([Document.from_words(words)])
    if any(abs(one - answer.probabilities[label]) > 0.01 for one, label in zip(theirs, classifier.labels, strict=True)):
        raise RowError(
            f"Transformers' own classifier says {theirs} where the support model says {answer.probabilities}: "
            "this encoder has another head there. Choose one of BERT's kind, such as minilm."
        )


def sentences(settings: Settings, n: int) -> tuple[list[str], list[str]]:
    """Take test sentences of SST and their labels."""
    chosen = spread(read_splits(settings).test, n)
    return [example.document.text for example in chosen], [example.label for example in chosen]


def warm_up(settings: Settings) -> list[str]:
    """Take sentences that are not measured, for the calls before the clock starts."""
    return [example.document.text for example in read_splits(settings).dev[:16]]


def run_explain(settings: Settings, folder: Path, n: int, _seed: int) -> Outcome:
    """Explain raw sentences; what is chosen is the label that the support model explains."""
    model = Rationalizer.from_pretrained(folder / "ours", device=settings.device)
    texts, gold = sentences(settings, n)
    model.explain(warm_up(settings))
    explained, seconds = clocked(settings.device, lambda: model.explain(texts))
    score = macro_f1(gold, [item.prediction.label for item in explained], model.labels)
    targets = tuple((model.labels.index(item.saliency.target),) for item in explained if item.saliency is not None)
    return Outcome(seconds, score, targets)


def run_integrated_gradients(settings: Settings, folder: Path, n: int, _seed: int) -> Outcome:
    """Score sentences by integrated gradients."""
    return score_sentences(
        settings, make_scorer("integrated_gradients", load_support(settings, folder), {"steps": STEPS}), n
    )


def run_lime(settings: Settings, folder: Path, n: int, seed: int) -> Outcome:
    """Score sentences by LIME."""
    scorer = make_scorer("lime", load_support(settings, folder), {"samples": SAMPLES, "seed": seed})
    return score_sentences(settings, scorer, n)


def load_support(settings: Settings, folder: Path) -> SupportModel:
    """Read the support model that was prepared."""
    return support_of(Rationalizer.from_pretrained(folder / "ours", device=settings.device))


def score_sentences(settings: Settings, scorer: Scorer, n: int) -> Outcome:
    """Score sentences and keep the best words of each."""
    texts, _ = sentences(settings, n)
    scorer.score([Document.from_tokenized(text) for text in warm_up(settings)])

    def work() -> list[Saliency]:
        return scorer.score([Document.from_tokenized(text) for text in texts])

    saliencies, seconds = clocked(settings.device, work)
    masks = TopK(RATIO).select(saliencies)
    return Outcome(seconds, chosen=tuple(tuple(mask.kept.nonzero()[0].tolist()) for mask in masks))
