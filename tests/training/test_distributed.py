import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import small
from fresh.data.splits import Splits
from fresh.rationalizer import Rationalizer
from fresh.training.distributed import ProcessGroup, process_group
from tiny import build
from weights import configure

LAUNCH = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=1", "--main_process_port=0"]
PLAIN = ["--mixed_precision=no", "--dynamo_backend=no"]


def test_one_process_is_a_group_of_its_own_and_shards_make_up_the_whole() -> None:
    group = process_group()
    assert (group, group.is_main) == (ProcessGroup(0, 1), True)
    assert group.gather(group.shard([3, 1, 2])) == [3, 1, 2]
    gradient = torch.ones(3)
    group.all_reduce([gradient])
    assert gradient.tolist() == [1, 1, 1]
    shards = [ProcessGroup(rank, 3).shard(range(7)) for rank in range(3)]
    assert shards == [range(0, 7, 3), range(1, 7, 3), range(2, 7, 3)]


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder that drops nothing out, so that it does not matter which process reads a text."""
    folder = build("bert", tmp_path_factory.mktemp("steady") / "bert")
    configure(folder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return folder


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_two_processes_do_what_one_does(toy: Splits, steady: Path, tmp_path: Path) -> None:
    """The same to 1e-4 in probabilities (sums are rounded in another order), and so the same metrics."""
    splits = small.some(toy, 96, 32)
    parts = {"train": splits.train, "dev": splits.dev, "test": splits.test}
    data = [str(small.write_jsonl(tmp_path / f"{name}.jsonl", small.rows(part))) for name, part in parts.items()]
    command = ["-m", "fresh", "train", *data, *small.options(steady, epochs=4)]
    one = run(*command, "--out", str(tmp_path / "one"))
    assert one.returncode == 0, one.stderr
    two = run(*LAUNCH, "--num_processes=2", *PLAIN, *command, "--out", str(tmp_path / "two"))
    assert two.returncode == 0, two.stderr
    assert two.stdout == one.stdout.replace(str(tmp_path / "one"), str(tmp_path / "two"))  # only one of them speaks
    alone, together = (Rationalizer.from_pretrained(tmp_path / name, device="cpu") for name in ("one", "two"))
    first, second = small.reported(alone.report), small.reported(together.report)
    assert first.rows == second.rows
    assert first.figures is not None
    assert second.figures is not None
    assert first.figures.confusion == second.figures.confusion
    brier, other = (figures.calibration[1].figure.value for figures in (first.figures, second.figures))
    assert brier == pytest.approx(other, abs=1e-4)
    documents = [example.document for example in splits.test]
    for one_found, other_found in zip(alone.explain(documents), together.explain(documents), strict=True):
        assert one_found.mask == other_found.mask
        probabilities = other_found.prediction.probabilities
        assert dict(one_found.prediction.probabilities) == pytest.approx(dict(probabilities), abs=1e-4)


@pytest.mark.slow
def test_an_error_ends_all_processes(toy: Splits, steady: Path, tmp_path: Path) -> None:
    command = ["-m", "fresh", "train", str(tmp_path / "none.csv"), "--out", str(tmp_path / "model")]
    found = run(*LAUNCH, "--num_processes=2", *PLAIN, *command, *small.options(steady))
    assert found.returncode != 0
    assert found.stderr.count("none.csv") >= 1
    assert not (tmp_path / "model").exists()
