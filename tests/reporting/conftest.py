"""The page of the movies corpus, and a browser page to look at it with."""

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from fresh.reporting.html import View, render
from pages import movies_page


@pytest.fixture(scope="session")
def movies() -> View:
    return movies_page()


@pytest.fixture(scope="session")
def movies_url(movies: View, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("movies") / "report.html"
    path.write_text(render(movies), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A wide page, in light mode unless a test asks for another."""
    scheme: Literal["light", "dark"] = getattr(request, "param", "light")
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    yield opened
    opened.close()
