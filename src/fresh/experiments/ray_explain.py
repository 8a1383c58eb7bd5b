"""Explains large corpora on all nodes of a Ray cluster, with the same output as on one machine."""

import itertools
import json
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fresh.data import BadRows, DataConfig, read_documents
from fresh.document import Document
from fresh.evaluation.warnings import drop_too_long
from fresh.experiments.ray_cluster import Node, check_nodes, connect
from fresh.persistence import read_files
from fresh.rationalizer import BATCH_SIZE, Rationalizer, find_model, from_files
from fresh.reporting.console import to_record

MAX_AHEAD = 4  # groups of documents for each worker that may wait for an earlier group, whose lines come first


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What to explain, and how."""

    source: str  # a file on this machine
    reads: DataConfig
    ratio: float | None = None
    scores: bool = False
    device: str = "auto"


def explain_on_cluster(
    model: str, request: ExplainRequest, bad: BadRows, address: str | None = None, n_workers: int | None = None
) -> Generator[str]:
    """Explain the texts of a file on a cluster, with a model in each worker; no shared disk is needed.

    :param model: Folder of a saved model, or its name on the model hub.
    :param bad: Receives the number of skipped rows.
    :param address: Address of the cluster; see :func:`fresh.experiments.ray_cluster.connect`.
    :param n_workers: Maximum number of workers; by default one per GPU or, without GPUs, one per core.
    :return: JSON lines, a few hundred at a time.
    """
    # Refuse at once what a node would refuse minutes later.
    loaded = Rationalizer.from_pretrained(model, device="cpu")
    if request.ratio is not None:
        loaded.check_ratio(request.ratio)
    next(read_documents(request.source, request.reads, BadRows()), None)
    documents = read_documents(request.source, request.reads, bad)
    # Texts that are too long are skipped here, not by the workers, so that groups stay full.
    if request.reads.skip_bad:
        documents = drop_too_long(documents, loaded, bad)
    # The same groups as in `Rationalizer.explain_stream`: the size of a batch affects the last bits of probabilities.
    groups = iter(lambda: list(itertools.islice(documents, BATCH_SIZE)), [])
    with connect(address) as ray:
        n_fitting, resources = _divide_cluster(check_nodes(ray), request.device)
        # An actor that dies with its node starts again elsewhere, and explains the same group once more.
        actor = ray.remote(_Explainer).options(max_restarts=-1, max_task_retries=-1, **resources)
        files = ray.put(read_files(find_model(model, {})))
        workers = [actor.remote(request, files) for _ in range(min(n_fitting, n_workers or n_fitting))]
        try:
            yield from _explain_in_order(ray, workers, groups)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ValueError | TypeError):
                raise ValueError(str(error.cause)) from error
            raise


def _explain_in_order(ray: Any, workers: Sequence[Any], groups: Iterable[list[Document]]) -> Generator[str]:
    # Not ray.util.ActorPool: with results in order, it leaves a worker idle until all earlier groups are done.
    idle, busy, results = deque(workers), dict[Any, Any](), deque[Any]()
    for group in groups:
        if not idle:
            [ready], _ = ray.wait(list(busy))
            idle.append(busy.pop(ready))
        worker = idle.popleft()
        results.append(worker.explain.remote(group))
        busy[results[-1]] = worker
        while results and (results[0] not in busy or len(results) > MAX_AHEAD * len(workers)):
            yield ray.get(results.popleft())
    yield from map(ray.get, results)


def _divide_cluster(nodes: Sequence[Node], device: str) -> tuple[int, dict[str, float]]:
    # The number of workers, and the resources of each.
    n_gpus = 0 if device == "cpu" else sum(node.n_gpus for node in nodes)
    if n_gpus:
        return n_gpus, {"num_cpus": 1, "num_gpus": 1}
    return sum(node.n_cores for node in nodes), {"num_cpus": 1}


class _Explainer:
    def __init__(self, request: ExplainRequest, files: Mapping[str, bytes]) -> None:
        import torch

        torch.set_num_threads(1)  # each core has a worker
        self.request, self.model = request, from_files(files, request.device)

    def explain(self, documents: list[Document]) -> str:
        explanations = self.model.explain(documents, ratio=self.request.ratio)
        records = (to_record(explanation, self.request.scores) for explanation in explanations)
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
