"""Training and explaining killed at random moments; for grids see experiments/test_run.py, for studies study/web."""

import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import small
from experiments import write_toy
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.persistence import read_files
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK

pytestmark = pytest.mark.slow
COMMAND = """
import sys
import fresh.cli.main, fresh.pipeline
fresh.pipeline.CHECKPOINT_SECONDS = 0.05  # checkpoints are written almost all the time
print("ready", flush=True)
sys.exit(fresh.cli.main.main())
"""


def start(arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a command in a new process, and wait until its modules are loaded."""
    command = [sys.executable, "-c", COMMAND, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def finish(arguments: Sequence[str]) -> float:
    """Run a command to its end, and return how long it took."""
    process, begin = start(arguments), time.monotonic()
    process.communicate()
    assert process.returncode == 0
    return time.monotonic() - begin


def kill_within(arguments: Sequence[str], seconds: float, generator: np.random.Generator) -> bool:
    """Kill a command at a random moment; return whether that was before its end."""
    process = start(arguments)
    with suppress(subprocess.TimeoutExpired):
        process.wait(generator.uniform(0, seconds))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


def digests(folder: Path) -> dict[str, str]:
    """Compute the digests of all files of a model, so that a failure names the files that differ."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in read_files(folder).items()}


def test_training_killed_at_random_gives_the_same_model(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    data = write_toy(tmp_path / "toy", toy, 96, 16)
    settings = small.options(encoders["bert"], epochs=8, patience=8, dropout=0.3, learning_rate=1e-3)
    undisturbed, out = tmp_path / "undisturbed" / "model", tmp_path / "killed" / "model"
    seconds = finish(["train", str(data), "--out", str(undisturbed), *settings])
    whole, command = digests(undisturbed), ["train", str(data), "--out", str(out), *settings]
    generator, n_kills = np.random.default_rng(0), 0
    while n_kills < 22:
        n_kills += kill_within(command, seconds, generator)
        assert not out.exists() or digests(out) == whole
        if out.exists():
            shutil.rmtree(out.parent)
    finish(command)
    assert digests(out) == whole
    assert sorted(path.name for path in out.parent.iterdir()) == ["model", "model-report.html"]


def test_explaining_killed_at_random_leaves_whole_lines(
    support: SupportModel, predictor: Predictor, toy: Splits, tmp_path: Path
) -> None:
    model, texts, output = tmp_path / "model", tmp_path / "texts.jsonl", tmp_path / "out.jsonl"
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(model)
    examples = itertools.islice(itertools.cycle(toy.train), 5_000)
    small.write_jsonl(texts, [{"id": str(n), "text": example.document.text} for n, example in enumerate(examples)])
    command = ["explain", str(model), "--input", str(texts), "--output", str(output), "--device", "cpu", "--overwrite"]
    seconds = finish(command)
    expected = output.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["id"] for line in expected] == [str(n) for n in range(5_000)]
    generator, n_kills, n_lines = np.random.default_rng(0), 0, set[int]()
    while n_kills < 12:
        n_kills += kill_within(command, seconds, generator)
        found = output.read_bytes().splitlines(keepends=True)
        assert found == expected[: len(found)]
        n_lines.add(len(found))
    assert len(n_lines) > 3
    finish(command)
    assert output.read_bytes().splitlines(keepends=True) == expected
