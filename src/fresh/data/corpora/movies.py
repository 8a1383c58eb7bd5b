"""Movies: long reviews with the passages that people marked (Zaidan and Eisner, 2008), as ERASER gives them out."""

from dataclasses import replace
from pathlib import Path

from fresh.data.corpora.corpus import Corpus, nothing_found, read_eraser, read_json_lines
from fresh.data.splits import Splits
from fresh.document import Example


def _read(folder: Path) -> Splits:
    """Read train, dev and test, without the query: ERASER asks the same of every review."""
    splits = read_json_lines(folder, "movies")
    if splits is not None:
        return splits
    splits = read_eraser(folder, "movies")
    if splits is None:
        raise nothing_found(folder, "movies", "ERASER's movies.tar.gz, there, in its folder eraser, or unpacked")
    return Splits(_without_query(splits.train), _without_query(splits.dev), _without_query(splits.test))


def _without_query(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    """Drop the question."""
    return tuple(replace(example, document=replace(example.document, query=())) for example in examples)


MOVIES = Corpus(
    name="movies",
    title="Movies",
    labels=("NEG", "POS"),
    ratio=0.3,
    half_ratio=0.15,
    encoder="bert-base-uncased",
    read=_read,
    long="chunk",
)
