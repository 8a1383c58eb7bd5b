"""What tests of web browser share with others."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from served import on_a_port, save_models, save_pair_model

READ = "[...document.querySelectorAll('#document mark .word')].map(word => word.textContent)"


@pytest.fixture(scope="module")
def places(
    support: SupportModel, predictor: Predictor, pair_support: SupportModel, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    place = tmp_path_factory.mktemp("models")
    return save_models(support, predictor, place) | {"pair": save_pair_model(pair_support, place / "pair")}


@pytest.fixture(scope="module")
def address(places: dict[str, str]) -> Iterator[str]:
    with on_a_port(*places.values()) as address:
        yield address


@pytest.fixture(scope="module")
def model(places: dict[str, str]) -> Rationalizer:
    return Rationalizer.from_pretrained(places["any-length"], device="cpu")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that must neither complain nor ask any server but its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    shown = context.new_page()
    wrong: list[str] = []
    asked: list[str] = []
    shown.on("console", lambda message: wrong.append(message.text))
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    shown.on("dialog", lambda dialog: wrong.append(dialog.message))
    shown.on("request", lambda request: asked.append(request.url))
    yield shown
    refused = tuple(f"Failed to load resource: the server responded with a status of {status}" for status in (404, 422))
    assert [line for line in wrong if not line.startswith(refused)] == []
    assert [url for url in asked if not url.startswith((address, "data:,", f"blob:{address}"))] == []
    context.close()


def explain(page: Page, address: str, text: str, model: str = "one-length") -> None:
    page.goto(address)
    page.get_by_label("Model", exact=True).select_option(model)
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Explain", exact=True).click()
