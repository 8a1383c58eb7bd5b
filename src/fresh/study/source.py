"""The documents that a study draws from."""

import re
from pathlib import Path

from fresh.config import list_settings
from fresh.data.config import DataConfig
from fresh.data.corpora import CORPORA, find_corpus
from fresh.data.splits import read_examples
from fresh.document import Example
from fresh.errors import DataError
from fresh.study.config import StudyConfig

FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)( '')?")


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
    try:
        if config.data_dir:
            return list(find_corpus(config.corpus).read(Path(config.data_dir)).test)
        return list(read_examples(config.corpus, config.data))
    except DataError as error:
        raise DataError(_for_a_file(str(error), file)) from error


def _for_a_file(told: str, file: Path) -> str:
    """Name settings as the study file has them, where a message names options of other commands."""
    kinds = {setting.name: setting.kind for setting in list_settings(DataConfig)}

    def written(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        if name not in kinds:
            return found[0]
        value = '""' if found[2] else "true" if kinds[name] is bool else '"COLUMN"'
        return f"{name} = {value} in {file}"

    return FLAG.sub(written, told)
