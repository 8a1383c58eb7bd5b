"""The corpora of the paper, one file each."""

from fresh.config import suggest
from fresh.data.corpora.agnews import AGNEWS
from fresh.data.corpora.corpus import Corpus
from fresh.data.corpora.evinf import EVINF
from fresh.data.corpora.movies import MOVIES
from fresh.data.corpora.multirc import MULTIRC
from fresh.data.corpora.sst import SST
from fresh.errors import DataError

__all__ = ["CORPORA", "Corpus", "find_corpus"]


def find_corpus(name: str) -> Corpus:
    """Find a corpus by its name."""
    if name in CORPORA:
        return CORPORA[name]
    raise DataError(suggest(name, "a corpus", CORPORA))


CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (SST, AGNEWS, EVINF, MOVIES, MULTIRC)}
