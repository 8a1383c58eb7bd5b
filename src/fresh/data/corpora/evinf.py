"""Evidence Inference: what a trial's abstract says about an outcome (Lehman et al., 2019)."""

from pathlib import Path

from fresh.data.corpora.corpus import Corpus, nothing_found, read_json_lines
from fresh.data.splits import Splits


def _read(folder: Path) -> Splits:
    """Read train, dev and test; the query is intervention, comparator and outcome."""
    splits = read_json_lines(folder, "evinf")
    if splits is None:
        raise nothing_found(folder, "evinf")
    return splits


EVINF = Corpus(
    name="evinf",
    title="Evidence Inference",
    labels=("no significant difference", "significantly decreased", "significantly increased"),
    ratio=0.1,
    half_ratio=0.05,
    encoder="allenai/scibert_scivocab_uncased",
    read=_read,
)
