"""What tests of web start share with others."""

import pytest

from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from served import save_models


@pytest.fixture(scope="module")
def places(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return save_models(support, predictor, tmp_path_factory.mktemp("models"))
