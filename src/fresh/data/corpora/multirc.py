"""MultiRC: is this answer to a question about a passage right (Khashabi et al., 2018), as ERASER gives it out."""

from pathlib import Path

from fresh.data.corpora.corpus import Corpus, nothing_found, read_eraser, read_json_lines
from fresh.data.splits import Splits


def _read(folder: Path) -> Splits:
    """Read train, dev and test; the query is question and answer."""
    splits = read_json_lines(folder, "multirc") or read_eraser(folder, "multirc")
    if splits is None:
        raise nothing_found(folder, "multirc", "ERASER's multirc.tar.gz, there, in its folder eraser, or unpacked")
    return splits


MULTIRC = Corpus(
    name="multirc",
    title="MultiRC",
    labels=("False", "True"),
    ratio=0.2,
    half_ratio=0.1,
    encoder="roberta-base",
    read=_read,
)
