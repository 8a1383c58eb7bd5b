"""What a corpus is, and where its files may lie."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fresh.data.eraser import TAR_ENDINGS, is_eraser
from fresh.data.splits import DataConfig, Splits, load_splits, read_examples
from fresh.errors import DataError

SPLITS = ("train", "dev", "test")
TOKENISED = DataConfig(text="document", tokenised=True)


@dataclass(frozen=True, slots=True)
class Corpus:
    """A published corpus, with the settings that the paper used for it."""

    name: str
    title: str
    labels: tuple[str, ...]
    """The classes, sorted."""
    ratio: float
    """Share of the words that a rationale keeps."""
    half_ratio: float
    """The smaller share of the paper's second setting."""
    encoder: str
    """The encoder that the paper used."""
    read: Callable[[Path], Splits]
    """Reads the published files in a folder."""
    long: str = "stagger"
    """How documents over the encoder's length are read."""


def read_json_lines(folder: Path, name: str) -> Splits | None:
    """Read the corpus from JSON lines in the folder or in its subfolder; nothing if they are not there."""
    for place in (folder / name, folder):
        files = {split: _find_json_lines(place, split) for split in SPLITS}
        if all(files.values()) and not is_eraser(place):
            return Splits(**{split: tuple(read_examples(file, TOKENISED)) for split, file in files.items() if file})
    return None


def _find_json_lines(folder: Path, split: str) -> Path | None:
    """Find the file of a split, packed or not."""
    files = (folder / f"{split}{ending}" for ending in (".jsonl.gz", ".jsonl"))
    return next((file for file in files if file.is_file()), None)


def read_eraser(folder: Path, name: str) -> Splits | None:
    """Read the corpus from ERASER's own files; nothing if they are not there."""
    for place in _eraser_places(folder, name):
        if place.exists() and is_eraser(place):
            return load_splits(place, DataConfig(), seed=0)
    return None


def _eraser_places(folder: Path, name: str) -> Iterator[Path]:
    """List where ERASER's files may lie: the path itself, a tar in it, or an unpacked tar in it."""
    yield folder
    for parent in (folder, folder / "eraser"):
        yield from (parent / f"{name}{ending}" for ending in reversed(TAR_ENDINGS))
        yield parent / name


def nothing_found(folder: Path, name: str, originals: str = "") -> DataError:
    """Say what was looked for.

    :param originals: The published file that would do as well.
    """
    also = f", and {originals}" if originals else ""
    return DataError(
        f"{name} was not found in {folder}: looked for train, dev and test as .jsonl.gz or .jsonl, "
        f"there and in its folder {name}{also}. Name the folder that holds them."
    )
