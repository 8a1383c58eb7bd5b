"""AG News: the topic of a news item (Zhang, Zhao and LeCun, 2015)."""

from pathlib import Path

from fresh.data.corpora.corpus import Corpus, nothing_found, read_json_lines
from fresh.data.splits import Splits


def _read(folder: Path) -> Splits:
    """Read train, dev and test."""
    splits = read_json_lines(folder, "agnews")
    if splits is None:
        raise nothing_found(folder, "agnews")
    return splits


AGNEWS = Corpus(
    name="agnews",
    title="AG News",
    labels=("Business", "Sci/Tech", "Sports", "World"),
    ratio=0.2,
    half_ratio=0.1,
    encoder="bert-base-uncased",
    read=_read,
)
