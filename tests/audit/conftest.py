"""Models that are put together from halves trained once for all tests, and one of them saved with certificates."""

from pathlib import Path

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.certify import certify
from fresh.document import Document
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

TEXTS = ("the film was good", "An awful story of two old men, and the sea!", "“great” 😀 \ud800 film it plays in the")


@pytest.fixture(scope="session")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    """A model that selects words by attention."""
    return small.rationalizer(support, predictor, TopK(0.2), "attention")


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """Documents to certify."""
    return [Document.from_text(text, id=f"r-{number}") for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="session")
def folder(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model."""
    place = tmp_path_factory.mktemp("models") / "model"
    small.rationalizer(support, predictor, TopK(0.4)).save_pretrained(place)
    return place


@pytest.fixture(scope="session")
def content(folder: Path, documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The certificates of the documents."""
    target = tmp_path_factory.mktemp("certificates") / "certificates.jsonl"
    certify(folder, documents, target, device="cpu")
    return target.read_bytes()
