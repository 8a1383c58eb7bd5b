"""SST: is a sentence from a film review positive (Socher et al., 2013)."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from fresh.data.corpora.corpus import SPLITS, TOKENISED, Corpus, nothing_found, read_json_lines
from fresh.data.splits import Splits, read_examples
from fresh.errors import DataError

ZIP = "trainDevTestTrees_PTB.zip"
LEAF = re.compile(r" ([^\s()]+)\)")
# The paper's data went through spaCy's tokeniser, which finds these in the bare, lower-cased sentences.
SPACY_SPLITS = {"gonna": "gon na", "28k": "28 k"}


def _read(folder: Path) -> Splits:
    """Read train, dev and test, from JSON lines or from the treebank."""
    splits = read_json_lines(folder, "sst")
    if splits is not None:
        return splits
    for path in (folder, folder / ZIP, folder / "sst" / ZIP):
        if path.is_file():
            return _read_treebank(path)
    raise nothing_found(folder, "sst", f"the treebank {ZIP}")


def _read_treebank(path: Path) -> Splits:
    """Read the treebank's zip, without unpacking it."""
    try:
        with zipfile.ZipFile(path) as archive:
            trees = {split: archive.read(f"trees/{split}.txt").decode() for split in SPLITS}
    except (zipfile.BadZipFile, EOFError, KeyError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path.name}: broken treebank ({error}). Fetch the file again.") from error
    return Splits(**{split: tuple(read_examples(_sentences(trees[split], split), TOKENISED)) for split in SPLITS})


def _sentences(trees: str, split: str) -> Iterator[dict[str, str]]:
    """Read the sentences of a split; those that are neither positive nor negative are left out."""
    opinionated = (tree for tree in trees.splitlines() if not tree.startswith("(2"))
    for number, tree in enumerate(opinionated):
        yield {"id": f"{split}_{number}", "document": _normalise(tree), "label": "1" if tree[1] in "34" else "0"}


def _normalise(tree: str) -> str:
    """Reduce a sentence to lower-case words without punctuation, as the paper did."""
    leaves = " ".join(LEAF.findall(tree)).replace("-LRB-", "").replace("-RRB-", " ")
    return " ".join(SPACY_SPLITS.get(word, word) for word in re.sub(r"\W", " ", leaves).lower().split())


SST = Corpus(
    name="sst",
    title="SST",
    labels=("0", "1"),
    ratio=0.2,
    half_ratio=0.1,
    encoder="bert-base-uncased",
    read=_read,
)
