import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import BadRows, DataConfig, Splits
from fresh.experiments import ray_explain
from fresh.experiments.ray_cluster import Node
from fresh.experiments.ray_explain import (
    ExplainRequest,
    _divide_cluster,
    _Explainer,
    _read_groups,
    explain_on_cluster,
)
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK


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
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and explains in this process, as the nodes of a cluster do."""
    model = Rationalizer.from_pretrained(folder / "model", device="cpu")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(ray_explain, "_load", lambda _files, _device: model)
    monkeypatch.setattr(ray_explain, "BATCH_SIZE", 1)
    monkeypatch.setattr(ray_explain, "connect", lambda _address: nullcontext())

    def process(_ray: Any, _files: Any, request: ExplainRequest, _n_workers: Any) -> Iterator[dict[str, Any]]:
        explainer = _Explainer(request, [])
        for batch in _read_groups({"folder": [str(folder)]}, request, []):
            yield {name: value for name, [value] in explainer(batch).items()}

    monkeypatch.setattr(ray_explain, "_process", process)


def test_skipped_texts_are_reported_in_the_end(at_once: None, folder: Path) -> None:
    bad = BadRows()
    request = ExplainRequest(str(folder / "few.csv"), DataConfig(skip_bad=True), device="cpu")
    lines = list(explain_on_cluster(str(folder / "model"), request, bad))
    assert [json.loads(line)["id"] for line in lines] == ["0", "2"]
    assert (bad.count, bad.total) == (1, 3)


def test_a_text_that_cannot_be_read_leaves_no_output(
    at_once: None, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
def test_what_cannot_be_explained_is_refused_before_a_cluster_is_joined(
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
