"""Explains large corpora on all nodes of a Ray cluster, with the same output as on one machine."""

import itertools
import json
import logging
import os
import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fresh._optional import optional_import
from fresh.data.splits import BadRows, DataConfig, read_documents
from fresh.document import Document
from fresh.evaluation.warnings import drop_too_long
from fresh.experiments.ray_cluster import Node, check_nodes, connect
from fresh.persistence import read_files
from fresh.rationalizer import BATCH_SIZE, Rationalizer, find_model, from_files
from fresh.reporting.console import to_record

Batch = Mapping[str, Sequence[Any]]
"""A Ray batch of one row: its number, its kind (documents, lines, error or skipped), and its content in bytes."""
LOCAL_SHARE = 0.001
"""Share of a resource that only this machine has, which ties the reader to it."""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What to explain, and how."""

    source: str
    """A file on this machine."""
    reads: DataConfig
    ratio: float | None = None
    scores: bool = False
    device: str = "auto"


def explain_on_cluster(
    model: str, request: ExplainRequest, bad: BadRows, address: str | None = None, n_workers: int | None = None
) -> Generator[str]:
    """Explain the texts of a file on a cluster, with a model in each worker; no shared disk is needed.

    :param model: Folder of a saved model, or its name on the model hub.
    :param bad: Receives the number of skipped rows at the end.
    :param address: Address of the cluster; see :func:`fresh.experiments.ray_cluster.connect`.
    :param n_workers: Maximum number of workers; by default one per GPU or, without GPUs, one per core.
    :return: JSON lines, a few hundred at a time.
    """
    # Refuse at once what a node would refuse minutes later.
    loaded = Rationalizer.from_pretrained(model, device="cpu")
    if request.ratio is not None:
        loaded.check_ratio(request.ratio)
    next(read_documents(request.source, request.reads, BadRows()), None)
    with connect(address) as ray:
        for number, row in enumerate(_process(ray, read_files(find_model(model, {})), request, n_workers)):
            assert row["number"] == number  # Ray promises the order, and the output depends on it
            content = row["content"].decode()
            if row["kind"] == "error":
                raise ValueError(content)
            if row["kind"] == "lines":
                yield content
                continue
            for name, value in json.loads(content).items():
                setattr(bad, name, value)


def _process(
    ray: Any, files: Mapping[str, bytes], request: ExplainRequest, n_workers: int | None
) -> Iterator[dict[str, Any]]:
    """Read a file on this machine, and explain it on all machines in groups of documents, in their order."""
    data = optional_import("ray.data", "ray", "A Ray cluster")
    n_fitting, resources = _divide_cluster(check_nodes(ray), request.device)
    context = data.DataContext.get_current()
    context.target_max_block_size = 1  # each group is a block of its own, and goes to any free worker
    context.execution_options.preserve_order = True
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    reference = [ray.put(files)]  # in a list: Ray resolves references that are arguments themselves
    here = {f"node:{ray.util.get_node_ip_address()}": LOCAL_SHARE}
    groups = data.from_items([{"folder": str(Path.cwd())}]).map_batches(
        _read_groups, batch_size=1, fn_args=[request, reference], num_cpus=0, resources=here
    )
    explained = groups.map_batches(
        _Explainer,
        batch_size=1,
        fn_constructor_args=[request, reference],
        compute=data.ActorPoolStrategy(size=min(n_fitting, n_workers or n_fitting)),
        **resources,
    )
    yield from explained.iter_rows()


def _divide_cluster(nodes: Sequence[Node], device: str) -> tuple[int, dict[str, float]]:
    """Return how many workers fit on a cluster, and the resources of each."""
    n_gpus = 0 if device == "cpu" else sum(node.n_gpus for node in nodes)
    if n_gpus:
        return n_gpus, {"num_cpus": 1, "num_gpus": 1}
    return sum(node.n_cores for node in nodes), {"num_cpus": 1}


def _read_groups(batch: Batch, request: ExplainRequest, files: Sequence[Any]) -> Iterator[Batch]:
    """Read the documents of a file in the same groups as `Rationalizer.explain_stream`.

    :param batch: The current folder of the command.
    :param files: A reference to the files of the model.
    """
    # The same groups, because the size of a batch affects the last bits of probabilities.
    os.chdir(batch["folder"][0])
    bad, count = BadRows(), itertools.count()
    try:
        documents = read_documents(request.source, request.reads, bad)
        # Texts that are too long are skipped here, not by the workers, so that groups stay full.
        if request.reads.skip_bad:
            documents = drop_too_long(documents, _load(files, "cpu"), bad)
        while group := list(itertools.islice(documents, BATCH_SIZE)):
            yield _row(next(count), "documents", pickle.dumps(group))
    except ValueError as error:
        yield _row(next(count), "error", str(error).encode())
    else:
        yield _row(next(count), "skipped", json.dumps(asdict(bad)).encode())


class _Explainer:
    """Holds the model, and explains groups of documents."""

    def __init__(self, request: ExplainRequest, files: Sequence[Any]) -> None:
        import torch

        torch.set_num_threads(1)  # each core has a worker
        self.request, self.model = request, _load(files, request.device)

    def __call__(self, batch: Batch) -> Batch:
        """Turn documents into lines, and pass on everything else."""
        [number], [kind], [content] = batch["number"], batch["kind"], batch["content"]
        if kind != "documents":
            return _row(number, kind, content)
        try:
            documents: list[Document] = pickle.loads(content)  # noqa: S301 - from our own reader
            explanations = self.model.explain(documents, ratio=self.request.ratio)
            records = (to_record(explanation, self.request.scores) for explanation in explanations)
            lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            return _row(number, "lines", lines.encode())
        except (ValueError, TypeError) as error:
            return _row(number, "error", str(error).encode())


def _row(number: int, kind: str, content: bytes) -> Batch:
    return {"number": [number], "kind": [kind], "content": [content]}


def _load(files: Sequence[Any], device: str) -> Rationalizer:
    import ray

    return from_files(ray.get(files[0]), device)
