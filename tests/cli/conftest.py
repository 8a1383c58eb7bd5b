"""A saved model of toy reviews."""

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK


@pytest.fixture(scope="session")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    """A model of one length."""
    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture(scope="session")
def saved(model: Rationalizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its folder."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save_pretrained(folder)
    return str(folder)
