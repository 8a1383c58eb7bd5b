"""The models of a server: each is loaded once, and has a name."""

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fresh
from fresh.audit.certificates.format import Certificate, Maker
from fresh.config import suggest
from fresh.persistence import check_model, find_predictor, predictor_digest
from fresh.rationalizer import ExplainSpec, Rationalizer, find_model
from fresh.serving.batcher import Batcher
from fresh.serving.config import BatchLimits
from fresh.web.errors import Problem
from fresh.web.metrics import ServerMetrics

_NAME = re.compile(r"[^\W_][\w.-]*")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model with its name and its queue."""

    name: str
    folder: Path
    maker: Maker
    batcher: Batcher

    @property
    def model(self) -> Rationalizer:
        """The model itself."""
        return self.batcher.model

    def describe(self) -> dict[str, Any]:
        """Return what a client must know to use the model."""
        return {
            "name": self.name,
            "labels": list(self.model.labels),
            "asks": self.model.needs_query,
            "ratios": None if self.model.ratios is None else list(self.model.ratios),
            "predictor_sha256": self.maker.predictor_sha256,
        }

    def health(self) -> str:
        """Return the state of the model in words."""
        if not self.batcher.is_alive:
            return "stopped"
        return "ready" if self.folder.is_dir() else "ready, from memory: its folder is gone"

    def check_ratio(self, ratio: float) -> None:
        """Refuse a ratio that the model was not trained for."""
        try:
            self.model.check_ratio(ratio)
        except ValueError as error:
            raise Problem(422, str(error)) from error

    def certify(self, specs: Sequence[ExplainSpec]) -> "Future[list[Certificate]]":
        """Explain and certify texts in batches of their own; certificates of one batch share a group number."""
        if not self.folder.is_dir():
            raise Problem(
                503,
                f"The folder of model {self.name!r} is gone, so its certificates could not be verified. "
                "Restore the folder. Explanations still work, from memory.",
            )
        groups = itertools.count()

        def certify(model: Rationalizer, part: Sequence[ExplainSpec]) -> list[Certificate]:
            explanations, group = [explanation for [explanation] in model.explain_specs(part)], next(groups)
            rationales = [explanation.rationale for explanation in explanations]
            rows = zip(rationales, model.predictor.token_ids(rationales), explanations, strict=True)
            return [Certificate(rationale, pieces, one.prediction, group) for rationale, pieces, one in rows]

        return self.batcher.submit(specs, certify)


class Models:
    """All models of a server, by name."""

    def __init__(self, served: Mapping[str, ServedModel]) -> None:
        self.served = dict(served)

    def get(self, name: str) -> ServedModel:
        """Return the model with a name."""
        if name not in self.served:
            raise Problem(404, suggest(name, "a model here", self.served))
        return self.served[name]

    def close(self) -> None:
        """Finish the current batch of each model."""
        for served in self.served.values():
            served.batcher.close()


def _name_models(models: Sequence[str]) -> dict[str, str]:
    places: dict[str, str] = {}
    for model in models:
        name, sign, place = model.partition("=")
        if Path(model).exists():  # names of folders may contain "=" too
            name, place = Path(model).resolve().name, model
        elif not sign or ("/" in name and not Path(place).exists()):
            name, place = model.rstrip("/").rpartition("/")[2], model
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"{name!r} cannot be the name of a model: names are part of URLs, so they hold letters, digits, -, _ "
                f"and . only, and begin with a letter or a digit. Write {shlex.quote(f'{_valid_name(name)}={place}')}."
            )
        if name in places:
            raise ValueError(
                f"Two models have the name {name}: {places[name]} and {place}. "
                f"Give one of them another name: other-{name}={place}."
            )
        places[name] = place
    return places


def _valid_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-_.") or "my-model"


def check_models(models: Sequence[str]) -> None:
    """Check names and folders without loading models or asking the model hub."""
    for place in _name_models(models).values():
        on_hub = place.count("/") == 1 and not Path(place).parent.exists()
        if not on_hub:
            check_model(find_model(place, {}))


def load_models(
    models: Sequence[str], device: str, metrics: ServerMetrics, limits: BatchLimits | None = None
) -> Models:
    """Load models from their folders, or from the model hub."""
    served: dict[str, ServedModel] = {}
    for name, place in _name_models(models).items():
        folder = find_model(place, {})
        model = Rationalizer.from_pretrained(folder, device=device)
        maker = Maker(predictor_digest(find_predictor(folder)), fresh.__version__)
        served[name] = ServedModel(name, folder, maker, Batcher(name, model, metrics, limits))
    return Models(served)
