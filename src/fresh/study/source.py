"""The documents that a study draws from."""

from pathlib import Path

from fresh.data.corpora import CORPORA, find_corpus
from fresh.data.splits import read_examples
from fresh.document import Example
from fresh.errors import DataError
from fresh.study.config import StudyConfig


def read_documents(config: StudyConfig, file: Path) -> list[Example]:
    """Read the test part of a corpus, or a whole file.

    :param file: Where the settings stand, for errors.
    """
    place = Path(config.corpus)
    if not (config.data_dir or place.suffix or place.exists()):
        raise DataError(
            f"{place} does not exist, and {place.name} is not the name of a corpus. There are: {', '.join(CORPORA)}, "
            f"each with data_dir in {file}. Else name a file."
        )
    if config.data_dir:
        return list(find_corpus(config.corpus).read(Path(config.data_dir)).test)
    return list(read_examples(config.corpus, config.data))
