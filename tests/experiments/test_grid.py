"""Keys and labels of runs."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import write_grid
from fresh.experiments.grid import RunSpec, invalid_runs
from fresh.experiments.grid_file import read_grid
from fresh.nn.encoder import identify_encoder
from fresh.training.config import FREE, REMOVED

DATA = Path("data")
CHANGES = {"epochs": 3, "scorer": "gradient", "ratio": 0.1, "encoder": "mpnet", "precision": "fp32", "seed": 1}
CHANGES |= {"discretizer": "contiguous", "long": "chunk", "tagger": True, "patience": 3, "folds": 2, "pooling": "mean"}


def key_of(digest: str = "d", **about: Any) -> str:
    own = about.pop("settings", {})
    spec = RunSpec(**{"row": "row", "corpus": "sst", "settings": {"scorer": "attention", **own}, **about})
    return spec.key(spec.resolve(DATA), digest)


def test_a_key_changes_with_every_setting_that_affects_the_result() -> None:
    as_text = {name: str(value) for name, value in reversed(CHANGES.items())}
    assert key_of(settings=as_text) == key_of(settings=CHANGES) != key_of()
    keys = [key_of(settings={name: value}) for name, value in CHANGES.items()]
    keys += [key_of(), key_of("other"), key_of(corpus="movies"), key_of(documents=9), key_of(reads="complement")]
    keys += [key_of(settings={"layer": -2})]
    assert len(set(keys)) == len(keys)


def test_a_key_does_not_depend_on_speed_or_on_the_name_of_the_row() -> None:
    free = {"device": "cpu", "frozen": "off", "recording": False}
    assert {*free, *REMOVED} == set(FREE)
    for name, value in free.items():
        assert key_of(settings={name: value}) == key_of()
    assert key_of(row="another") == key_of()


listed = st.lists(
    st.fixed_dictionaries({"scorer": st.sampled_from(("attention", "gradient")), "ratio": st.sampled_from((0.1, 0.2))}),
    min_size=1,
    max_size=4,
    unique_by=lambda row: (row["scorer"], row["ratio"]),
)


@settings(max_examples=15)
@given(rows=listed, random=st.randoms())
def test_the_order_of_a_file_changes_no_key(
    rows: list[dict[str, Any]], random: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shuffled = [dict(random.sample(sorted(row.items()), len(row))) for row in random.sample(rows, len(rows))]
    keys: list[set[str]] = []
    for number, own in enumerate((rows, shuffled)):
        path = write_grid(tmp_path_factory.mktemp("grid") / f"{number}.toml", *own, grid={"corpus": "sst"})
        keys.append({spec.key(spec.resolve(DATA), "digest") for spec in read_grid(path).specs})
    assert keys[0] == keys[1]
    assert len(keys[0]) == len(rows)


# An encoder is identified by its content, not by its path


def test_a_folder_is_identified_by_its_content(encoders: dict[str, Path], tmp_path: Path) -> None:
    assert identify_encoder("minilm") == "minilm"
    assert identify_encoder("somebody/something") == "somebody/something"
    one, moved = tmp_path / "one", tmp_path / "elsewhere" / "other"
    shutil.copytree(encoders["bert"], one)
    shutil.copytree(one, moved)
    assert identify_encoder(str(one)) == identify_encoder(str(moved)) != identify_encoder(str(encoders["roberta"]))
    keys = [key_of(settings={"encoder": str(folder)}) for folder in (one, moved, encoders["roberta"])]
    assert keys[0] == keys[1] != keys[2]
    for name in ("README.md", "vocab.txt"):
        (one / name).write_text("What this is.")
    seen = [identify_encoder(str(one))]
    assert seen == [identify_encoder(str(moved))]
    (one / "1_Pooling").mkdir()
    (one / "tokenizer.json").rename(one / "tokenizer.old")  # then the words are those of vocab.txt
    seen.append(identify_encoder(str(one)))
    for name in ("vocab.txt", "config.json", "model.safetensors", "1_Pooling/config.json"):
        with (one / name).open("ab") as file:
            file.write(b" ")
        seen.append(identify_encoder(str(one)))
    assert len(set(seen)) == len(seen)


# Lists of invalid runs


def test_many_runs_are_grouped_by_rows() -> None:
    def specs(row: str, corpora: Sequence[str], n_seeds: int) -> list[RunSpec]:
        return [RunSpec(row, corpus, {"seed": n}) for corpus, n in itertools.product(corpora, range(n_seeds))]

    trials = [spec for number in range(20) for spec in specs(f"theirs, trial {number}", ["sst"], 1)]
    both, alone = specs("ours, top_k", ["sst", "movies"], 3), specs("full text", ["sst"], 1)
    errors = {
        "epochs must be at least 1, got 0.": [*both, *alone, *trials, both[0]],
        "There are none.": specs("theirs", ["movies"], 2),
    }
    assert invalid_runs(errors).splitlines() == [
        "29 runs of the grid cannot be done, so none was started:",
        "epochs must be at least 1, got 0.",
        "  ours, top_k: 6 runs on sst, movies",
        "  full text: 1 run on sst",
        "  theirs: 20 runs on sst",
        "There are none.",
        "  movies, theirs, seed 0",
        "  movies, theirs, seed 1",
    ]
