import itertools
import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import ray

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data import BadRows, DataConfig, Splits
from fresh.experiments import ray_explain
from fresh.experiments.ray_cluster import Node
from fresh.experiments.ray_explain import MAX_AHEAD, ExplainRequest, _divide_cluster, explain_on_cluster
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK
from two_nodes import own_processes


class InProcess:
    """Stands for Ray: work is done when its result is awaited, and the worker that started last is ready first."""

    exceptions = ray.exceptions

    def __init__(self) -> None:
        self.n_ahead = self.most_ahead = 0

    def start(self, function: Any, *about: Any) -> Any:
        self.n_ahead += 1
        self.most_ahead = max(self.most_ahead, self.n_ahead)
        return partial(function, *about)

    def remote(self, function: Any) -> Any:
        return Mock(
            options=lambda **_resources: Mock(
                remote=lambda *about: Mock(explain=self.remote(function(*about).explain))
            ),
            remote=partial(self.start, function),
        )

    def put(self, value: Any) -> Any:
        return value

    def wait(self, references: list[Any]) -> tuple[list[Any], list[Any]]:
        return references[-1:], references[:-1]

    def get(self, reference: Any) -> Any:
        self.n_ahead -= 1
        try:
            return reference()
        except ValueError as error:
            raise ray.exceptions.RayTaskError("explain", "a trace", error) from error  # type: ignore[no-untyped-call]


def test_each_worker_has_a_gpu_or_a_core() -> None:
    plain = Node("a1", "big (10.0.0.1)", 8, 0)
    nodes = [plain, Node("b2", "gpus", 4, 2)]
    assert _divide_cluster(nodes, "auto") == (2, {"num_cpus": 1, "num_gpus": 1})
    assert _divide_cluster(nodes, "cpu") == (12, {"num_cpus": 1})
    assert _divide_cluster([plain], "auto") == (8, {"num_cpus": 1})


@pytest.fixture(scope="module")
def folder(support: SupportModel, predictor: Predictor, toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and texts some of which cannot be read: a few, and several hundred."""
    place = tmp_path_factory.mktemp("explained")
    small.rationalizer(support, predictor, TopK(0.2), "attention").save_pretrained(place / "model")
    texts = ["a good film", "film " * 100_000, "an awful film"]
    small.write_csv(place / "few.csv", [{"id": str(number), "text": text} for number, text in enumerate(texts)])
    table = [{"name": str(number), "review": e.document.text} for number, e in enumerate((*toy.train, *toy.train))]
    table[300]["review"] = "film " * 100_000
    small.write_csv(place / "data.csv", table)
    return place


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Explains in this process, as a cluster of one node with three workers does; the first is the slowest."""
    cluster = InProcess()
    monkeypatch.setattr(ray_explain, "BATCH_SIZE", 1)
    monkeypatch.setattr(ray_explain, "check_nodes", lambda _ray: [Node("a1", "here", 3, 0)])
    monkeypatch.setattr(ray_explain, "connect", lambda _address: nullcontext(cluster))
    return cluster


@pytest.mark.parametrize("n_workers", [None, 1, 2])
def test_lines_are_in_order_and_few_groups_wait(n_workers: int | None, at_once: InProcess, folder: Path) -> None:
    request = ExplainRequest(str(folder / "data.csv"), DataConfig("review", id="name", skip_bad=True), device="cpu")
    lines = explain_on_cluster(str(folder / "model"), request, BadRows(), n_workers=n_workers)
    assert [json.loads(line)["id"] for line in itertools.islice(lines, 40)] == [str(n) for n in range(40)]
    assert at_once.most_ahead <= MAX_AHEAD * (n_workers or 3) + 1


def test_failures_leave_no_output(
    at_once: InProcess, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (str(folder / "model"), "--input", str(folder / "few.csv"), "--output", str(tmp_path / "explained.jsonl"))
    assert main(["explain", *files, "--engine", "ray", "--device", "cpu"]) == 1
    assert "\nfresh explain: Text '1' has 100,000 words" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reads", "ratio", "message"),
    [
        (DataConfig(text="review"), None, "few.csv has no column 'review' for the text"),
        (DataConfig(), 0.5, "Another ratio needs a model that was trained for a range of ratios"),
    ],
)
def test_what_cannot_be_explained_is_refused_at_once(
    reads: DataConfig, ratio: float | None, message: str, folder: Path
) -> None:
    request = ExplainRequest(str(folder / "few.csv"), reads, ratio)
    with pytest.raises(ValueError, match=message):
        next(explain_on_cluster(str(folder / "model"), request, BadRows(), "nowhere"))


def test_a_cluster_writes_the_same_lines(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    columns = ("--input", "data.csv", "--text", "review", "--id", "name", "--device", "cpu", "--skip-bad", "--scores")
    over_ray = ("--engine", "ray", "--address", cluster.address)
    written: list[str] = []
    errors: list[str] = []
    for name, options in (("local.jsonl", ()), ("ray.jsonl", over_ray)):
        assert main(["explain", "model", *columns, "--output", str(tmp_path / name), *options]) == 0
        written.append((tmp_path / name).read_text(encoding="utf-8"))
        errors.append(capsys.readouterr().err.splitlines()[-1])
    assert written[0] == written[1]
    assert errors[0] == errors[1]
    assert "1 of 480 rows" in errors[0]
    assert [json.loads(line)["id"] for line in written[1].splitlines()] == [str(n) for n in range(480) if n != 300]


def test_the_texts_of_a_dead_worker_are_explained_again(cluster: Any, folder: Path) -> None:
    request = ExplainRequest(str(folder / "data.csv"), DataConfig("review", id="name", skip_bad=True), device="cpu")
    lines = explain_on_cluster(str(folder / "model"), request, BadRows(), cluster.address)
    first = next(lines)
    victim = next(process for process in own_processes() if "_Explainer" in "".join(process.cmdline()))
    victim.kill()
    victim.wait(60)
    ids = [json.loads(line)["id"] for line in (first + "".join(lines)).splitlines()]
    assert ids == [str(n) for n in range(480) if n != 300]
