"""The models that are served: each loaded once, with a name of its own."""

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
from fresh.rationalizer import Rationalizer, find_model
from fresh.serving.batcher import Batcher, BatchLimits
from fresh.serving.question import Question, answer
from fresh.web.errors import Problem
from fresh.web.metrics import ServerMetrics

NAME = re.compile(r"[^\W_][\w.-]*")
"""How models are called."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model that answers."""

    name: str
    folder: Path
    maker: Maker
    batcher: Batcher

    @property
    def model(self) -> Rationalizer:
        """The model itself."""
        return self.batcher.model

    def about(self) -> dict[str, Any]:
        """Say what a client must know to ask it."""
        model = self.model
        return {
            "name": self.name,
            "labels": list(model.labels),
            "asks": model.needs_query,
            "ratios": None if model.ratios is None else list(model.ratios),
            "predictor_sha256": self.maker.predictor_sha256,
        }

    def health(self) -> str:
        """Say in a few words how it is."""
        if not self.batcher.thread.is_alive():
            return "stopped"
        return "ready" if self.folder.is_dir() else "ready, from memory: its folder is gone"

    def certify(self, questions: Sequence[Question]) -> "Future[list[Certificate]]":
        """Have questions answered by themselves, in turns, and certified; what was read in one turn has one number."""
        turns = itertools.count()
        return self.batcher.run(lambda model, some: _certified(model, some, next(turns)), questions)

    def check_folder(self) -> None:
        """Refuse what needs the folder once that is gone."""
        if not self.folder.is_dir():
            raise Problem(
                503,
                f"The folder of model {self.name!r} is gone, so that nobody could verify a certificate of it. "
                "Put the folder back; answers are given from memory meanwhile.",
            )


class Models:
    """All models of a server, by name."""

    def __init__(self, served: Mapping[str, Served]) -> None:
        self.served = dict(served)

    def find(self, name: str) -> Served:
        """Find a model by its name."""
        if name not in self.served:
            raise Problem(404, suggest(name, "a model here", self.served))
        return self.served[name]

    def close(self) -> None:
        """Have all models finish what they began."""
        for served in self.served.values():
            served.batcher.close()


def _certified(model: Rationalizer, questions: Sequence[Question], group: int) -> list[Certificate]:
    """Answer questions together and certify the answers.

    :param group: Tells these from others in the same file, which were not read together with them.
    """
    explanations = [explanation for [explanation] in answer(model, questions)]
    rationales = [explanation.rationale for explanation in explanations]
    made = zip(rationales, model.predictor.token_ids(rationales), explanations, strict=True)
    return [Certificate(rationale, pieces, one.prediction, group) for rationale, pieces, one in made]


def _named(models: Sequence[str]) -> dict[str, str]:
    """Give each model a name: that of its folder, or the one that stands before it, as in NAME=MODEL."""
    places: dict[str, str] = {}
    for given in models:
        name, place = _name_and_place(given)
        if NAME.fullmatch(name) is None:
            better = shlex.quote(f"{_fitting(name)}={place}")
            raise ValueError(
                f"{name!r} cannot be the name of a model: a name stands in addresses, so it holds letters, digits, "
                f"-, _ and . only, and begins with a letter or a digit. Write {better}."
            )
        if name in places:
            raise ValueError(
                f"Two models have the name {name}: {places[name]} and {place}. "
                f"Give one another name: other-{name}={place}."
            )
        places[name] = place
    return places


def _name_and_place(given: str) -> tuple[str, str]:
    """Take NAME=MODEL apart; a folder may have the sign in its name, too."""
    name, sign, place = given.partition("=")
    if Path(given).exists():
        return Path(given).resolve().name, given
    if not sign or ("/" in name and not Path(place).exists()):
        return given.rstrip("/").rpartition("/")[2], given
    return name, place


def _fitting(name: str) -> str:
    """Make a name for a model of one that cannot be."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-_.") or "my-model"


def check(models: Sequence[str]) -> None:
    """Refuse models that can be seen to be wrong without loading them; the hub is not asked."""
    for place in _named(models).values():
        on_hub = place.count("/") == 1 and not Path(place).parent.exists()
        if not on_hub:
            check_model(find_model(place, {}))


def load(models: Sequence[str], device: str, measures: ServerMetrics, limits: BatchLimits | None = None) -> Models:
    """Load models from their folders, or from the hub."""
    served: dict[str, Served] = {}
    for name, place in _named(models).items():
        folder = find_model(place, {})
        model = Rationalizer.from_pretrained(folder, device=device)
        maker = Maker(predictor_digest(find_predictor(folder)), fresh.__version__)
        served[name] = Served(name, folder, maker, Batcher(name, model, measures, limits))
    return Models(served)
