import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import BadRows, DataConfig, Splits
from fresh.errors import ConfigError
from fresh.experiments import ray_explain as distributed
from fresh.experiments import sites
from fresh.experiments.ray_cluster import ClusterError, Node, _check_address, _reason_of, check_version, version
from fresh.experiments.ray_executor import RayExecutor
from fresh.experiments.ray_explain import Asked, _division, _Explainer, _read_groups, explain_on_cluster
from fresh.experiments.sight import _problem_of, look, no_cards
from fresh.experiments.sites import Site, _site_of, _Sites
from fresh.experiments.store import RunStore
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

RUN = ["run", "grid.toml", "--out", "runs"]
EXPLAIN = ["explain", "model", "--input", "texts.csv", "--output", "explained.jsonl"]
ON_RAY = ["--engine", "ray"]
NODE = Node("a1", "big (10.0.0.1)", 8, 0)
SHARED = "Name a folder that all nodes see under the same name, on a disk that they share."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([*RUN, "--address", "auto"], "--address is for a Ray cluster: add --engine ray, or leave it out."),
        ([*EXPLAIN, "--address", "auto"], "--address is for a Ray cluster: add --engine ray, or leave it out."),
        ([*EXPLAIN, "--workers", "2"], "--workers is for a Ray cluster: add --engine ray, or leave it out."),
        ([*EXPLAIN, *ON_RAY, "--workers", "0"], "--workers must be at least 1, got 0."),
        ([*RUN, *ON_RAY, "--workers", "0"], "--workers must be at least 1, got 0."),
        (
            [*EXPLAIN, *ON_RAY, "--certify", "c.jsonl"],
            "--engine ray explains a file with many texts, which does not go with --certify.",
        ),
        (
            ["explain", "model", "A film.", *ON_RAY],
            "--engine ray explains a file with many texts, which does not go with TEXT.",
        ),
        (
            ["explain", "model", "--input", "-", "--output", "explained.jsonl", *ON_RAY],
            "--engine ray reads a file and writes one: name them with --input and --output.",
        ),
        (
            ["explain", "model", "--input", "texts.csv", *ON_RAY],
            "--engine ray reads a file and writes one: name them with --input and --output.",
        ),
        (
            [*RUN, *ON_RAY, "--address", "ray://head:10001"],
            "ray://head:10001 is not the address of a Ray cluster. Write HOST:PORT as `ray start --head` shows it, "
            "or auto for the cluster that this machine belongs to.",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    given: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 1
    assert capsys.readouterr().err == f"fresh {given[0]}: {expected}\n"


@pytest.mark.parametrize("place", ["head", ":6379", "head:", "head:port", "http://head:6379"])
def test_an_address_names_a_host_and_a_port(place: str) -> None:
    with pytest.raises(ClusterError, match=f"^{place} is not the address of a Ray cluster"):
        _check_address(place)


def test_a_port_that_cannot_be_is_said() -> None:
    with pytest.raises(ClusterError, match=r"^No Ray cluster answers at 127\.0\.0\.1:70000: "):
        _check_address("127.0.0.1:70000")


def test_a_missing_ray_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    expected = r"A Ray cluster needs ray\. Install it with: pip install 'fresh-rationales\[ray\]'"
    with pytest.raises(ImportError, match=expected):
        RayExecutor(tmp_path, None)


def test_a_cluster_that_cannot_be_joined_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_how: Any) -> None:
        raise RuntimeError("Version mismatch: 3.11 here, 3.12 there\nmore")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    expected = (
        r"^The Ray cluster at auto cannot be joined: Version mismatch: 3\.11 here, 3\.12 there\. This machine must be "
        r"one of its nodes, with the same versions of Python and Ray: ray start --address=HOST:PORT\.$"
    )
    with pytest.raises(ClusterError, match=expected):
        RayExecutor(tmp_path, None, "auto")


def test_another_version_is_refused_by_the_name_of_its_node() -> None:
    check_version(NODE, version())
    expected = rf"^Node big \(10\.0\.0\.1\) has fresh 0\.0 and this machine {version()}\. Install the same version"
    with pytest.raises(ClusterError, match=expected):
        check_version(NODE, "0.0")


def test_a_reason_is_a_line_with_a_full_stop() -> None:
    class RemoteError(Exception):
        cause = ModuleNotFoundError("No module named 'fresh'\nmore")

    assert _reason_of(RemoteError("a trace")) == "No module named 'fresh'."
    assert _reason_of(RuntimeError("It broke.")) == "It broke."
    assert _reason_of(RuntimeError()) == "RuntimeError."


def test_a_node_sees_the_folder_of_runs_and_its_locks(tmp_path: Path) -> None:
    runs = RunStore(tmp_path)
    assert _problem_of(runs, None, "token") == f"does not see what is written to {tmp_path} here. {SHARED}"
    missing = tmp_path / "data"
    assert _problem_of(runs, missing, "token") == f"has no folder {missing}, which `data_dir` names. {SHARED}"
    with runs.claimed("token"):
        assert _problem_of(runs, tmp_path, "token") == ""
        sight = look(runs, None, "token", "a1", no_cards)
        assert (sight.version, sight.problem, sight.cards) == (version(), "", ())
        assert (tmp_path / "claims/token-a1").is_file()
    assert _problem_of(runs, None, "token") == (
        f"does not see which files in {tmp_path} are locked here. The disk that they share must take locks (flock) "
        "from all of them: docs/how-to/cluster.md says how."
    )


@pytest.mark.parametrize(
    ("n_cores", "n_cards", "cards", "expected"),
    [
        (1, 0, (), (1, 1, 0.0)),
        (8, 0, (), (4, 2, 0.0)),
        (32, 2, (141.0,), (12, 2, 0.1666)),
        (3, 2, (141.0,), (3, 1, 0.5)),
        (8, 1, (8.0,), (1, 8, 1.0)),
        (8, 1, (), (4, 2, 0.0)),
    ],
)
def test_a_node_is_divided_as_one_machine_is(
    n_cores: int, n_cards: int, cards: tuple[float, ...], expected: tuple[int, int, float]
) -> None:
    node = Node("a1", "big", n_cores, n_cards)
    assert _site_of(node, cards) == Site(node, *expected)


@given(st.integers(1, 256), st.integers(0, 16), st.floats(1, 200))
def test_all_workers_of_a_node_fit_on_it(n_cores: int, n_cards: int, memory: float) -> None:
    site = _site_of(Node("a1", "big", n_cores, n_cards), (memory,) if n_cards else ())
    assert site.n_workers * site.n_cores <= n_cores
    assert (site.card_share > 0) == (n_cards > 0)
    if n_cards:
        assert site.n_workers <= n_cards * int(1 / site.card_share)


class Cluster:
    """Stands for Ray: nodes that answer at once, or never."""

    def __init__(self, answers: bool = True) -> None:
        self.answers = answers

    def wait(self, asked: list[Any], **_how: Any) -> tuple[list[Any], list[Any]]:
        return (asked, []) if self.answers else ([], asked)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes of a cluster that does not exist; asking them calls the function here."""
    found = [NODE]
    for name in ("alive_nodes", "working_nodes"):
        monkeypatch.setattr(sites, name, lambda _ray: list(found))
    monkeypatch.setattr(sites, "ask", lambda _ray, _node, question, *given, card_share: question(*given))
    monkeypatch.setattr(sites, "answer_of", lambda _ray, _node, answer: answer)
    monkeypatch.setattr(sites, "LOOK_EVERY", 0.0)
    return found


def test_a_node_that_cannot_work_there_is_refused_at_the_start(nodes: list[Node], tmp_path: Path) -> None:
    expected = rf"^Node big \(10\.0\.0\.1\) does not see what is written to {tmp_path} here\. Name a folder"
    with pytest.raises(ClusterError, match=expected):
        _Sites(Cluster(), RunStore(tmp_path), None, "token").survey()


def test_a_node_that_cannot_work_there_is_left_out_later(nodes: list[Node], tmp_path: Path) -> None:
    found = _Sites(Cluster(), RunStore(tmp_path), None, "token")
    with found.runs.claimed("token"):
        found.survey()
        assert list(found.open) == ["a1"]
    nodes.append(Node("b2", "late (10.0.0.2)", 4, 0))
    with pytest.warns(UserWarning, match=r"^Node late \(10\.0\.0\.2\) does not see which files .* It is left out\.$"):
        found.look_again()
    found.look_again()
    assert list(found.open) == ["a1"]


def test_nodes_that_never_answer_are_named(nodes: list[Node], tmp_path: Path) -> None:
    expected = (
        r"^No node of the Ray cluster answered within 60 seconds: big \(10\.0\.0\.1\)\. "
        r"Perhaps others use all of their cards: see `ray status`\.$"
    )
    with pytest.raises(ClusterError, match=expected):
        _Sites(Cluster(answers=False), RunStore(tmp_path), None, "token").survey()


def test_workers_that_explain_have_a_card_each_or_a_core() -> None:
    nodes = [NODE, Node("b2", "cards", 4, 2)]
    assert _division(nodes, "auto") == (2, {"num_cpus": 1, "num_gpus": 1})
    assert _division(nodes, "cpu") == (12, {"num_cpus": 1})
    assert _division([NODE], "auto") == (8, {"num_cpus": 1})


def test_too_few_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^workers must be at least 1, got -1\.$"):
        RayExecutor(tmp_path, None, n_workers=-1)


@pytest.fixture(scope="module")
def folder(support: SupportModel, predictor: Predictor, toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and texts of which the second cannot be read."""
    place = tmp_path_factory.mktemp("explained")
    small.rationalizer(support, predictor, TopK(0.2), "attention").save_pretrained(place / "model")
    texts = ["a good film", "film " * 100_000, "an awful film"]
    small.write_csv(place / "data.csv", [{"id": str(number), "text": text} for number, text in enumerate(texts)])
    return place


@pytest.fixture
def at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads and explains in this process, as the nodes of a cluster do."""
    model = Rationalizer.from_pretrained(folder / "model", device="cpu")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(distributed, "_load", lambda _files, _device: model)
    monkeypatch.setattr(distributed, "BATCH_SIZE", 1)
    monkeypatch.setattr(distributed, "connected", lambda _address: nullcontext())

    def rows_of(_ray: Any, _files: Any, asked: Asked, _n_workers: Any) -> Iterator[dict[str, Any]]:
        explainer = _Explainer(asked, [])
        for batch in _read_groups({"folder": [str(folder)]}, asked, []):
            yield {name: value for name, [value] in explainer(batch).items()}

    monkeypatch.setattr(distributed, "_rows_of", rows_of)


def test_what_is_left_out_is_told_in_the_end(at_once: None, folder: Path) -> None:
    bad = BadRows()
    asked = Asked(str(folder / "data.csv"), DataConfig(skip_bad=True), device="cpu")
    lines = list(explain_on_cluster(str(folder / "model"), asked, bad))
    assert [json.loads(line)["id"] for line in lines] == ["0", "2"]
    assert (bad.count, bad.total) == (1, 3)


def test_a_text_that_cannot_be_read_leaves_no_output(
    at_once: None, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ("--output", str(tmp_path / "explained.jsonl"))
    files = (str(folder / "model"), "--input", str(folder / "data.csv"))
    assert main(["explain", *files, *output, *ON_RAY, "--device", "cpu"]) == 1
    assert "\nfresh explain: Text '1' has 100000 words" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reads", "ratio", "expected"),
    [
        (DataConfig(text="review"), None, "data.csv has no column 'review' for the text"),
        (DataConfig(), 0.5, "Another ratio needs a model that was trained for a range of ratios"),
    ],
)
def test_what_cannot_be_is_said_before_a_cluster_is_joined(
    reads: DataConfig, ratio: float | None, expected: str, folder: Path
) -> None:
    asked = Asked(str(folder / "data.csv"), reads, ratio)
    with pytest.raises(ValueError, match=expected):
        next(explain_on_cluster(str(folder / "model"), asked, BadRows(), "nowhere"))
