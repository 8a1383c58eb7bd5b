"""A model that is put together from halves trained once for all tests."""

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK


@pytest.fixture(scope="session")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2))
