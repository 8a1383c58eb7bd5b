import errno
import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fresh.training.feature_cache
import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.nn.batch import TokenTable
from fresh.nn.batching import run_batches
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.training.config import ClassifierConfig, EngineConfig
from fresh.training.feature_cache import FeatureStore, _cache_key, cache_inputs
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext
from networks import last_matrix
from small import Saying
from tiny import ARCHITECTURES, FILLERS, KEY_BIASES, N_POSITIONS, WORDS
from training_hooks import record_losses
from training_toys import CPU

GB = 1e-9
"""One byte, in gigabytes."""

Configure = Callable[..., ClassifierConfig]
Pairs = Callable[[Splits], TrainingPairs[Text]]


def store_of(place: Any = "auto", gigabytes: float | None = None, folder: Path | None = None) -> FeatureStore:
    return FeatureStore(EngineConfig("auto", place, gigabytes, None if folder is None else str(folder)))


class Filler:
    """Fills rows with numbers that depend on their place, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: Tensor) -> None:
        self.calls += 1
        rows.copy_(numbers(*rows.shape))


def numbers(n_rows: int, width: int) -> Tensor:
    return torch.arange(n_rows * width).view(n_rows, width) + 0.123


def no_fill(_rows: Tensor) -> None:
    pytest.fail("It was computed again.")


def fetch(
    store: FeatureStore, fill: Callable[[Tensor], None], key: str = "some", dtype: torch.dtype = torch.float32
) -> Tensor:
    """Fetch 800 bytes."""
    return store.fetch(key, (50, 4), dtype, CPU, fill)


def is_mapped(rows: Tensor, folder: Path) -> bool:
    """Whether rows lie in a file of a folder."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    spans = [line.split(maxsplit=5) for line in lines if str(folder) in line]
    ends = [tuple(int(end, 16) for end in span[0].split("-")) for span in spans]
    return any(start <= rows.data_ptr() < end for start, end in ends)


# Where rows are kept


def test_rows_are_computed_once() -> None:
    store, fill = store_of("memory"), Filler()
    first, second = (fetch(store, fill) for _ in range(2))
    assert torch.equal(first, numbers(50, 4))
    assert second is first
    fetch(store, fill, "other")
    assert fill.calls == 2


IN_MEMORY = (("memory", None), ("memory", 0), ("auto", None), ("auto", 800 * GB))
IN_FILE = (("auto", 799 * GB), ("auto", 0), ("file", None), ("file", 100))


@pytest.mark.parametrize(
    ("place", "gigabytes", "in_file"), [*((*item, False) for item in IN_MEMORY), *((*item, True) for item in IN_FILE)]
)
def test_a_store_keeps_rows_where_the_settings_say(place: Any, gigabytes: float | None, in_file: bool) -> None:
    store = store_of(place, gigabytes)
    rows = fetch(store, Filler())
    assert torch.equal(rows, numbers(50, 4))
    assert store.describe_place("some") == ("a temporary file" if in_file else "memory")
    assert (store._temporary is not None) is in_file
    assert store._temporary is None or is_mapped(rows, store._temporary)


def test_by_default_half_of_the_free_memory_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, place in ((1600, "memory"), (1599, "a temporary file")):
        memory = type("Memory", (), {"available": free})
        monkeypatch.setattr("psutil.virtual_memory", lambda found=memory: found)
        store = store_of("auto")
        fetch(store, Filler())
        assert store.describe_place("some") == place


def test_older_rows_make_room() -> None:
    store, fill = store_of("auto", 1700 * GB), Filler()
    for key in ("first", "second", "first", "third"):
        fetch(store, fill, key)
    assert fill.calls == 3
    assert list(store._in_memory) == ["third"]
    assert store._temporary is None
    fetch(store, fill, "first")
    assert fill.calls == 4


def test_temporary_files_are_deleted_with_their_store() -> None:
    store = store_of("file")
    rows, folder = fetch(store, Filler()), store._temporary
    assert folder is not None
    assert [path.name for path in folder.iterdir()] == ["some.bin"]
    del store
    gc.collect()
    assert not folder.exists()
    assert torch.equal(rows, numbers(50, 4))  # they stay readable


# Folders


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", ["auto", "memory", "file"])
def test_a_folder_serves_later_runs(place: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "here"
    for fill in (Filler(), no_fill):
        store = store_of(place, folder=folder)
        rows = fetch(store, fill, dtype=dtype)
        assert rows.dtype == dtype
        assert torch.equal(rows, numbers(50, 4).to(dtype))
        assert is_mapped(rows, tmp_path) == (place == "file")
        assert store.describe_place("some") == (f"a file in {folder}" if place == "file" else "memory")
    assert (folder / "some.bin").stat().st_size == 200 * dtype.itemsize
    fill_other = Filler()
    fetch(store_of("file", folder=folder), fill_other, "other")
    assert fill_other.calls == 1
    assert sorted(path.name for path in folder.iterdir()) == ["other.bin", "some.bin"]


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content + b"x", lambda _content: b""])
def test_a_file_of_another_size_is_made_again(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    fill, path = Filler(), tmp_path / "some.bin"
    fetch(store_of("file", folder=tmp_path), fill)
    path.write_bytes(change(path.read_bytes()))
    assert torch.equal(fetch(store_of("file", folder=tmp_path), fill), numbers(50, 4))
    fetch(store_of("file", folder=tmp_path), no_fill)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError, match=r"\(800 bytes\) cannot be written to .*/file: .*frozen_folder.*frozen=off"):
        fetch(store_of("file", folder=tmp_path / "file"), no_fill)


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), torch.OutOfMemoryError("full")])
def test_a_half_written_file_is_deleted(error: BaseException, tmp_path: Path) -> None:
    def fill(rows: Tensor) -> None:
        rows[0] = 1
        assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
        raise error

    store = store_of("file", folder=tmp_path)
    with pytest.raises(type(error)):
        fetch(store, fill)
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(fetch(store, Filler()), numbers(50, 4))


# Networks


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts ran through frozen layers, each time that some did."""
    found: list[int] = []

    def counted(lengths: Any, device: torch.device, work: Callable[[Any], None], share: float) -> None:
        found.append(len(lengths))
        run_batches(lengths, device, work, share)

    monkeypatch.setattr(fresh.training.feature_cache, "run_batches", counted)
    return found


def lengthened(example: Example) -> Example:
    """Make every other document longer than a window."""
    words = (*example.document.words, *FILLERS * 5) if len(example.document.words) % 2 else example.document.words
    return Example(Document.from_words(words, example.document.query, example.document.id), example.label)


@pytest.mark.parametrize(("architecture", "long"), [*((name, "stagger") for name in ARCHITECTURES), ("bert", "chunk")])
def test_training_from_the_cache_equals_training_without_it(
    architecture: str,
    long: Any,
    toy_pairs: Splits,
    frozen_config: Configure,
    pairs_of: Pairs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded, splits = record_losses(monkeypatch), toy_pairs
    if long == "chunk":
        splits = Splits(*(tuple(map(lengthened, part[:48])) for part in (splits.train, splits.dev, splits.test)))
    found: dict[str, tuple[list[float], dict[str, Tensor]]] = {}
    for place in ("off", "memory", "file"):
        recorded.clear()
        config = frozen_config(architecture, frozen=place)
        config = replace(config, network=replace(config.network, long=long))
        [classifier] = train_classifiers([pairs_of(splits)], [config], RunContext())
        found[place] = [loss for _, loss in recorded], classifier.state_dict()
    losses, weights = found["off"]
    assert len(losses) >= 12
    assert np.std(losses[-20:]) > 0
    for place in ("memory", "file"):
        np.testing.assert_allclose(found[place][0], losses, atol=1e-5)
        for name, weight in weights.items():
            if not name.endswith(KEY_BIASES):
                torch.testing.assert_close(found[place][1][name], weight, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("place", ["memory", "file", "folder", "off"])
def test_training_says_what_runs_once(
    layers: int, place: str, toy: Splits, frozen_config: Configure, pairs_of: Pairs, runs: list[int], tmp_path: Path
) -> None:
    saying, data = Saying(), pairs_of(small.some(toy))
    engine = {"frozen": "file", "frozen_folder": str(tmp_path)} if place == "folder" else {"frozen": place}
    train_classifiers([data], [frozen_config(layers=layers, **engine)], RunContext("some network", saying))
    where = {"memory": "memory", "file": "a temporary file", "folder": f"a file in {tmp_path}"}
    n_tokens = sum(len(text.words) + 2 for text, _ in data.train)
    once = place != "off" and layers < 2
    assert sum(runs) == (64 if once else 0)
    [line] = saying.lines
    start, _, rest = line.partition(" padding; ")
    assert start.startswith("some network: 48 texts, ")
    assert rest == (
        f"{2 - layers} frozen layers run once, their output ({n_tokens * 64 / 1000:.1f} kB) is kept in {where[place]}."
        if once
        else "every step runs all layers."
    )


def test_networks_share_the_output_of_frozen_layers_for_the_same_texts(
    toy: Splits, frozen_config: Configure, pairs_of: Pairs, runs: list[int]
) -> None:
    data, config = pairs_of(small.some(toy)), frozen_config()
    seeds = [replace(config, train=replace(config.train, seed=seed)) for seed in (0, 1, 2)]
    rationales = [(Text(text.words[:3], text.query), label) for text, label in data.train]
    mean = replace(config, network=replace(config.network, pooling="mean", layers=0))
    context = RunContext(feature_store=store_of("memory"))
    steps: dict[str, tuple[list[TrainingPairs[Text]], list[ClassifierConfig], RunContext, int]] = {
        "all": ([data], [config], context, 64),
        "other seeds": ([data] * 2, seeds[1:], context, 0),
        "another dev": ([replace(data, dev=data.dev[::-1])], [config], context, 16),
        "rationales": ([replace(data, train=rationales)], [config], context, 48),
        "other weights": ([data], [frozen_config("electra")], context, 64),
        "other layers": ([data], [mean], context, 64),
        "again": ([data], [config], context, 0),
        "another store": ([data], [config], RunContext(), 64),
        "side by side": ([data] * 2, seeds[:2], RunContext(), 64),
    }
    for name, (pairs, configs, own_context, n_texts) in steps.items():
        runs.clear()
        train_classifiers(pairs, configs, own_context)
        assert sum(runs) == n_texts, name


def classifier_of(folder: Path) -> Classifier:
    return Classifier(load_encoder(str(folder), "start"), ("neg", "pos"), NetworkConfig(str(folder), layers=1))


def long_and_short() -> list[Text]:
    generator = np.random.default_rng(2)
    return [Text(tuple(generator.choice(WORDS, size).tolist())) for size in (5, 2 * N_POSITIONS, 0, 9, 5)]


def test_a_key_depends_on_all_that_the_output_depends_on(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    whole = classifier.tokenizer(long_and_short())

    def key_of(table: TokenTable, dtype: torch.dtype = torch.float32) -> str:
        assert classifier.split is not None
        return _cache_key(classifier.n_frozen, classifier.split.lower, table, dtype)

    keys = [key_of(whole), key_of(whole, torch.bfloat16)]
    for name in ("ids", "types", "positions", "starts"):
        array = getattr(whole, name).copy()
        array[2] += 1
        keys.append(key_of(replace(whole, **{name: array})))
    keys.append(key_of(replace(whole, types=whole.positions, positions=whole.types)))
    with torch.no_grad():
        last_matrix(classifier).weight.add_(1)
        next(iter(classifier.encoder.layers[1].parameters())).add_(1)
        assert key_of(whole) == keys[0]  # the upper layer is not frozen
        next(iter(classifier.encoder.layers[0].parameters())).add_(1)
        keys.append(key_of(whole))
        classifier.encoder.word_embeddings.weight[5, 3] += 1
        keys.append(key_of(whole))
    assert len(set(keys)) == 9


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_output_of_the_frozen_layers_is_cached(
    architecture: str, dtype: torch.dtype, encoders: dict[str, Path]
) -> None:
    classifier = classifier_of(encoders[architecture])
    table = classifier.tokenizer(long_and_short())
    cached = cache_inputs(classifier, table, store_of("memory"), dtype, SILENT)
    chosen, width = torch.tensor([3, 1, 0]), int(table.lengths[1]) + 3
    batch = cache_inputs(classifier, table, store_of("off"), dtype, SILENT).read(chosen, width, False)
    found = cached.read(chosen, width, False)
    assert torch.equal(found.mask, batch.mask)
    assert torch.equal(found.positions, batch.positions)
    assert classifier.split is not None
    assert found.hidden is not None
    states, is_token = found.hidden, batch.mask.bool()
    with torch.inference_mode():
        expected = classifier.windows.run(classifier.split.lower, batch)[is_token]
    assert states.dtype == torch.float32
    far = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(states[is_token], expected, atol=far, rtol=far)


def test_a_gpu_reads_fewer_tokens_at_once_with_a_larger_encoder(
    encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = classifier_of(encoders["bert"])
    with monkeypatch.context() as patch:
        patch.setattr(Classifier, "device", torch.device("cuda"))
        assert classifier.budget_share == 1.0
        classifier.body.config.update({"num_hidden_layers": 12, "hidden_size": 768})
        assert classifier.budget_share == 0.25
    assert classifier.budget_share == 1.0


# Whole runs


@pytest.fixture
def settings(encoders: dict[str, Path]) -> dict[str, Any]:
    return {**small.run_settings(encoders["bert"], epochs=1, layers=1), "progress": SILENT}


def test_with_a_folder_the_next_run_needs_no_frozen_layers(
    toy: Splits, settings: dict[str, Any], runs: list[int], tmp_path: Path
) -> None:
    first = train(small.some(toy), frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "first", **settings)
    assert sum(runs) == 4 * 64  # documents, rationales, random words and complements, of train and dev
    runs.clear()
    second = train(small.some(toy), frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "second", **settings)
    assert runs == []
    assert small.reported(second.report) == small.reported(first.report)
    assert small.digests(tmp_path / "second") == small.digests(tmp_path / "first")


def test_without_room_on_the_disk_no_training_begins(
    toy: Splits, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(fresh.training.loop, "train_epoch", lambda *_given: pytest.fail("Training began."))
    with pytest.raises(OSError, match=r"kB\) cannot be written to .*frozen: No space left"):
        train(toy, frozen_folder=str(tmp_path / "frozen"), out=tmp_path / "model", **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["frozen"]
    assert list((tmp_path / "frozen").iterdir()) == []
