from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import write_grid
from fresh.data.splits import Splits
from fresh.errors import DataError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.sources import Sources

LABELS = ["a"] * 20 + ["b"] * 20 + ["rare"]


@pytest.fixture
def splits(encoders: dict[str, Path], tmp_path: Path) -> Callable[[int], Splits]:
    """Read so many documents of a corpus with a rare class, which is in test, too."""
    (tmp_path / "three").mkdir()
    rows: list[dict[str, Any]] = [
        {"id": f"{place}", "text": f"a b {place}", "label": own} for place, own in enumerate(LABELS)
    ]
    for name in ("train", "dev", "test"):
        small.write_jsonl(tmp_path / f"three/{name}.jsonl", rows)
    corpora = {"three": {"data": "three"}}
    path = write_grid(tmp_path / "g.toml", {}, settings=small.settings(encoders["bert"]), corpora=corpora)

    def read(n_documents: int) -> Splits:
        [cell] = read_grid(path, documents=n_documents).cells
        return Sources(None).splits(cell, cell.resolve(None))

    return read


def test_so_few_documents_that_a_class_is_lost_hear_how_many_would_do(splits: Callable[[int], Splits]) -> None:
    told = "documents = {} is too few for all 3 classes of three: 27 are the fewest that hold each. "
    told += "Take documents=27."
    for n_few in (1, 2, 26):
        with pytest.raises(DataError) as caught:
            splits(n_few)
        assert str(caught.value) == told.format(n_few)
    assert splits(27).labels == splits(99).labels == ("a", "b", "rare")
