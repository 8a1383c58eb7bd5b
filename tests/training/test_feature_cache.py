import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
import torch
from torch import Tensor

import fresh.training.loop
import small
from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.nn.batch import Collator, TokenTable
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.network import Network
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.training.config import ClassifierConfig, EngineConfig, TrainConfig
from fresh.training.feature_cache import FeatureStore, _cache_key, cache_inputs
from fresh.training.fit import TrainingPairs, train_classifiers
from fresh.training.loop import RunContext
from networks import last_matrix, texts_of, untrained
from small import Saying
from tiny import ARCHITECTURES, KEY_BIASES, N_POSITIONS
from toy import lengthened
from training_hooks import limit_memory, record_losses
from training_toys import CPU

ROWS = torch.arange(200).view(50, 4) + 0.123


def frozen_config(folder: Path, layers: int = 1, frozen: Any = "auto", long: Any = "stagger") -> ClassifierConfig:
    """Make settings with frozen layers, under which what learns drops much out."""
    network, engine = NetworkConfig(str(folder), layers=layers, dropout=0.3, long=long), EngineConfig(frozen=frozen)
    train = TrainConfig(epochs=4, batch_size=16, learning_rate=3e-3, device="cpu", engine=engine)
    return ClassifierConfig(network, train)


def pairs_of(splits: Splits) -> TrainingPairs[Text]:
    """Make what a support model is trained on."""
    train, dev = ([(text_of(item.document), item.label) for item in part] for part in (splits.train, splits.dev))
    return TrainingPairs(train, dev)


def fetch(store: FeatureStore, key: str = "some", dtype: torch.dtype = torch.float32, fill: Any = None) -> Any:
    """Fetch the rows above, and where they are kept."""
    return store.fetch(key, (50, 4), dtype, CPU, fill or (lambda rows: rows.copy_(ROWS)))


# Where rows are kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("is_short", "place"), [(0, "memory"), (1, "a temporary file")])
def test_rows_are_computed_once_and_take_half_of_the_free_memory_or_a_file(
    is_short: int, place: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limit_memory(monkeypatch, 2 * 200 * dtype.itemsize - is_short)
    store = FeatureStore(EngineConfig())
    first, found = fetch(store, dtype=dtype)
    assert (found, first.dtype) == (place, dtype)
    assert torch.equal(first, ROWS.to(dtype))
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert (f"{tmp_path}/" in maps) == bool(is_short)
    assert list(tmp_path.iterdir()) == []  # the file has no name, so nothing can be left behind
    second, found = fetch(store, dtype=dtype, fill=lambda _rows: pytest.fail("It was computed again."))
    assert (second is first, found) == (True, place)
    assert torch.equal(fetch(FeatureStore(EngineConfig()), "other", dtype)[0], first)


def test_older_rows_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    store, filled = FeatureStore(EngineConfig()), list[str]()

    def available() -> SimpleNamespace:
        return SimpleNamespace(available=2 * (1700 - sum(rows.nbytes for rows, _ in store._rows.values())))

    monkeypatch.setattr("psutil.virtual_memory", available)
    for key in ("first", "second", "first", "third", "first"):
        assert fetch(store, key, fill=lambda _rows, key=key: filled.append(key))[1] == "memory"
    assert filled == ["first", "second", "third", "first"]


def test_after_an_error_rows_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(rows: Tensor) -> None:
        rows[0] = 1
        raise KeyboardInterrupt

    limit_memory(monkeypatch, 0)
    store = FeatureStore(EngineConfig())
    with pytest.raises(KeyboardInterrupt):
        fetch(store, fill=fail)
    assert torch.equal(fetch(store)[0], ROWS)


# Networks


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts ran through frozen layers, each time that some did."""
    found, real = list[int](), Network.for_each_batch

    def counted(self: Network, table: TokenTable, work: Any, share: float = 1, collate: Any = None) -> None:
        if isinstance(collate, Collator):  # not while dev is measured
            found.append(len(table))
        real(self, table, work, share, collate)

    monkeypatch.setattr(Network, "for_each_batch", counted)
    return found


@pytest.mark.parametrize(("architecture", "long"), [*((name, "stagger") for name in ARCHITECTURES), ("bert", "chunk")])
def test_training_from_the_cache_equals_training_without_it(
    architecture: str, long: str, toy_pairs: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, splits = record_losses(monkeypatch), toy_pairs
    if long == "chunk":
        splits = Splits(*(tuple(map(lengthened, part[:48])) for part in (splits.train, splits.dev, splits.test)))
    found: dict[str, tuple[list[float], dict[str, Tensor]]] = {}
    for place in ("off", "memory", "file"):
        recorded.clear()
        if place == "file":
            limit_memory(monkeypatch, 0)
        config = frozen_config(encoders[architecture], frozen="off" if place == "off" else "auto", long=long)
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
@pytest.mark.parametrize("place", ["memory", "a temporary file", "off"])
def test_training_says_what_runs_once(
    layers: int, place: str, toy: Splits, encoders: dict[str, Path], runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 0 if place == "a temporary file" else 10**9)
    saying, data = Saying(), pairs_of(small.some(toy))
    config = frozen_config(encoders["bert"], layers, "off" if place == "off" else "auto")
    train_classifiers([data], [config], RunContext("some network", saying))
    n_tokens = sum(len(text.words) + 2 for text, _ in data.train)
    once = place != "off" and layers < 2
    assert sum(runs) == (64 if once else 0)
    [line] = saying.lines
    start, _, rest = line.partition(" padding; ")
    assert start.startswith("some network: 48 texts, ")
    assert rest == (
        f"{2 - layers} frozen layers run once; their output ({n_tokens * 64 / 1000:.1f} kB) is kept in {place}."
        if once
        else "every step runs all layers."
    )


def test_networks_share_the_output_of_frozen_layers(toy: Splits, encoders: dict[str, Path], runs: list[int]) -> None:
    data, config = pairs_of(small.some(toy)), frozen_config(encoders["bert"])
    seeds = [replace(config, train=replace(config.train, seed=seed)) for seed in (0, 1, 2)]
    rationales = [(Text(text.words[:3], text.query), label) for text, label in data.train]
    mean = replace(config, network=replace(config.network, pooling="mean", layers=0))
    context = RunContext(feature_store=FeatureStore(EngineConfig()))
    steps: dict[str, tuple[list[TrainingPairs[Text]], list[ClassifierConfig], RunContext, int]] = {
        "all": ([data], [config], context, 64),
        "other seeds": ([data] * 2, seeds[1:], context, 0),
        "another dev": ([replace(data, dev=data.dev[::-1])], [config], context, 16),
        "rationales": ([replace(data, train=rationales)], [config], context, 48),
        "other weights": ([data], [frozen_config(encoders["electra"])], context, 64),
        "other layers": ([data], [mean], context, 64),
        "again": ([data], [config], context, 0),
        "another store": ([data], [config], RunContext(), 64),
        "side by side": ([data] * 2, seeds[:2], RunContext(), 64),
    }
    for name, (pairs, configs, own_context, n_texts) in steps.items():
        runs.clear()
        train_classifiers(pairs, configs, own_context)
        assert sum(runs) == n_texts, name


LONG_AND_SHORT = texts_of(5, 2 * N_POSITIONS, 0, 9, 5)


def test_a_key_depends_on_all_that_the_output_depends_on(encoders: dict[str, Path]) -> None:
    classifier = untrained(encoders["bert"], layers=1)
    whole = classifier.tokenizer(LONG_AND_SHORT)

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
def test_output_of_frozen_layers_is_cached(architecture: str, dtype: torch.dtype, encoders: dict[str, Path]) -> None:
    classifier = untrained(encoders[architecture], layers=1)
    table = classifier.tokenizer(LONG_AND_SHORT)
    cached = cache_inputs(classifier, table, FeatureStore(EngineConfig()), dtype, SILENT)
    chosen, width = torch.tensor([3, 1, 0]), int(table.lengths[1]) + 3
    batch = classifier.collator(table).batch(chosen, width, False)
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


def test_larger_encoders_read_less_at_once_on_a_gpu(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = untrained(encoders["bert"], layers=1)
    with monkeypatch.context() as patch:
        patch.setattr(Classifier, "device", torch.device("cuda"))
        assert classifier.budget_share == 1.0
        classifier.body.config.update({"num_hidden_layers": 12, "hidden_size": 768})
        assert classifier.budget_share == 0.25
    assert classifier.budget_share == 1.0


@pytest.mark.parametrize("call", ["posix_fallocate", "truncate"])
def test_without_room_on_the_disk_no_training_begins(
    call: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if call == "posix_fallocate":
        monkeypatch.setattr(os, call, Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
    else:  # a system without that function
        monkeypatch.delattr(os, "posix_fallocate")
        file = MagicMock()
        file.__enter__.return_value.truncate.side_effect = OSError(errno.ENOSPC, "No space left")
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: file)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fresh.training.loop, "train_epoch", lambda *_given: pytest.fail("Training began."))
    limit_memory(monkeypatch, 0)
    settings = small.run_settings(encoders["bert"], epochs=1, layers=1)
    with pytest.raises(OSError, match=rf"kB\) fits neither .*{tmp_path}: No space left\. Set TMPDIR .*frozen=off"):
        train(toy, out=tmp_path / "model", progress=SILENT, **settings)
    assert list(tmp_path.iterdir()) == []
