"""The page of the movies corpus, and a browser page to look at it with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from fresh.data.splits import Splits
from fresh.reporting.html import View
from pages import movies_view, write_page


@pytest.fixture(scope="session")
def movies(corpora_dir: Path, read_corpus: Callable[[str, Path], Splits]) -> View:
    return movies_view(read_corpus("movies", corpora_dir).test)


@pytest.fixture(scope="session")
def movies_url(movies: View, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(movies, tmp_path_factory.mktemp("movies"))


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A wide page, light unless a test asks for dark; a report must neither complain nor ask for anything else."""
    scheme: Literal["light", "dark"] = getattr(request, "param", "light")
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    wrong: list[str] = []
    asked: set[str] = set()
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    opened.on("request", lambda request: asked.add(request.url.partition("#")[0]))
    yield opened
    if opened.url.startswith("file:"):
        assert wrong == []
        assert {url for url in asked if not url.startswith("data:,") and not url.endswith("/report.html")} == set()
    opened.close()
