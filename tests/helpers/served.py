"""Servers for tests: tiny models behind the real app, in this process or on a port."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import small
from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.serving.app import ServeConfig, create_app
from fresh.serving.batcher import BatchLimits
from fresh.serving.models import Models, load
from fresh.web.metrics import ServerMetrics
from running import running

TEXT = "the old film was good and the story of two men was great"


def save_models(support: SupportModel, predictor: Predictor, place: Path) -> dict[str, str]:
    """Save a model of one length and one of a range of them."""
    one = small.rationalizer(support, predictor, TopK(0.2))
    models = {"one-length": one, "any-length": replace(one, ratios=(0.1, 0.6))}
    return {name: saved(model, place / name) for name, model in models.items()}


def save_pair_model(pair_support: SupportModel, place: Path) -> str:
    """Save a model that reads queries; its predictor has learned nothing, which no test asks for."""
    predictor = Predictor(pair_support.classifier)
    return saved(replace(small.rationalizer(pair_support, predictor, TopK(0.3)), needs_query=True), place)


def saved(model: Rationalizer, folder: Path) -> str:
    """Save a model and say where."""
    model.save_pretrained(folder)
    return str(folder)


def loaded(*places: str, limits: BatchLimits | None = None) -> tuple[Models, ServerMetrics]:
    """Load models as the command does."""
    measures = ServerMetrics()
    return load(places, "cpu", measures, limits), measures


@contextmanager
def on_a_port(*places: str, config: ServeConfig | None = None) -> Iterator[str]:
    """Serve models on a free port and give the address."""
    with listening(*loaded(*places), config) as address:
        yield address


@contextmanager
def listening(models: Models, measures: ServerMetrics, config: ServeConfig | None = None) -> Iterator[str]:
    """Serve models that are loaded on a free port and give the address."""
    with running(create_app(models, measures, config)) as address:
        yield address


def kept_of(record: dict[str, Any]) -> list[bool]:
    """Say which words of an answer with scores were read."""
    kept, at = [], 0
    for word in record["words"]:
        kept.append(any(span["start"] <= at < span["end"] for span in record["rationale"]))
        at += len(word) + 1
    return kept
