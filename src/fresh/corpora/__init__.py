"""The corpora of the paper, one file each."""

from fresh.config import unknown
from fresh.corpora.agnews import AGNEWS
from fresh.corpora.corpus import Corpus
from fresh.corpora.evinf import EVINF
from fresh.corpora.movies import MOVIES
from fresh.corpora.multirc import MULTIRC
from fresh.corpora.sst import SST
from fresh.data import DataError

__all__ = ["CORPORA", "Corpus", "find_corpus"]


def find_corpus(name: str) -> Corpus:
    """Find a corpus by its name."""
    if name in CORPORA:
        return CORPORA[name]
    raise DataError(unknown(name, "a corpus", CORPORA))


CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (SST, AGNEWS, EVINF, MOVIES, MULTIRC)}
