"""Explanations of large corpora, made on all nodes of a Ray cluster: the same lines, in the same order, as on one."""

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
from fresh.experiments.ray_cluster import Node, check_nodes, connected
from fresh.persistence import read_files
from fresh.rationalizer import BATCH_SIZE, Rationalizer, find_model, from_files
from fresh.reporting.console import to_record

Batch = Mapping[str, Sequence[Any]]
"""One row as Ray has it: its number, its kind (documents, lines, wrong or left out), and its content in bytes."""
PIN = 0.001
"""Share of what only this machine has: it ties the reader to it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is explained, and how."""

    source: str
    """A file of this machine."""
    reads: DataConfig
    ratio: float | None = None
    scores: bool = False
    device: str = "auto"


def explain_on_cluster(
    model: str, asked: Asked, bad: BadRows, address: str | None = None, n_workers: int | None = None
) -> Generator[str]:
    """Explain the texts of a file on a cluster, with a model in each worker; the model travels, no disk is shared.

    :param model: Folder of a saved model, or its name on the model hub.
    :param bad: Is told in the end what was left out.
    :param address: Where the cluster is; see :func:`fresh.experiments.ray_cluster.connected`.
    :param n_workers: How many workers to have, at most; one a card or, without cards, one a core if not given.
    :return: JSON lines, some hundred at a time.
    """
    _check_asked(model, asked)
    with connected(address) as ray:
        for number, row in enumerate(_rows_of(ray, read_files(find_model(model, {})), asked, n_workers)):
            assert row["number"] == number
            content = row["content"].decode()
            if row["kind"] == "wrong":
                raise ValueError(content)
            if row["kind"] == "lines":
                yield content
                continue
            for name, value in json.loads(content).items():
                setattr(bad, name, value)


def _check_asked(model: str, asked: Asked) -> None:
    """Refuse here and at once what would be refused elsewhere and later."""
    loaded = Rationalizer.from_pretrained(model, device="cpu")
    if asked.ratio is not None:
        loaded.check_ratio(asked.ratio)
    next(read_documents(asked.source, asked.reads, BadRows()), None)


def _rows_of(ray: Any, files: Mapping[str, bytes], asked: Asked, n_workers: int | None) -> Iterator[dict[str, Any]]:
    """Have a file read on this machine and explained on all, a group of documents at a time, in their order."""
    data = optional_import("ray.data", "ray", "A Ray cluster")
    n_fitting, needs = _division(check_nodes(ray), asked.device)
    context = data.DataContext.get_current()
    context.target_max_block_size = 1  # so that each group is a block by itself, and goes wherever there is room
    context.execution_options.preserve_order = True
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    kept = [ray.put(files)]  # in a list, so that it is fetched when it is needed
    here = {f"node:{ray.util.get_node_ip_address()}": PIN}
    read = data.from_items([{"folder": str(Path.cwd())}]).map_batches(
        _read_groups, batch_size=1, fn_args=[asked, kept], num_cpus=0, resources=here
    )
    explained = read.map_batches(
        _Explainer,
        batch_size=1,
        fn_constructor_args=[asked, kept],
        compute=data.ActorPoolStrategy(size=min(n_fitting, n_workers or n_fitting)),
        **needs,
    )
    yield from explained.iter_rows()


def _division(nodes: Sequence[Node], device: str) -> tuple[int, dict[str, float]]:
    """Say how many workers a cluster has room for, and what each of them needs."""
    n_cards = 0 if device == "cpu" else sum(node.n_cards for node in nodes)
    if n_cards:
        return n_cards, {"num_cpus": 1, "num_gpus": 1}
    return sum(node.n_cores for node in nodes), {"num_cpus": 1}


def _read_groups(batch: Batch, asked: Asked, files: Sequence[Any]) -> Iterator[Batch]:
    """Read the documents of a file in the groups in which `Rationalizer.explain_stream` explains them.

    :param batch: The folder in which the command was given.
    :param files: A reference to the files of the model.
    """
    os.chdir(batch["folder"][0])
    bad, count = BadRows(), itertools.count()
    try:
        for group in _groups_of(asked, files, bad):
            yield row(next(count), "documents", pickle.dumps(group))
    except ValueError as error:
        yield row(next(count), "wrong", str(error).encode())
    else:
        yield row(next(count), "left out", json.dumps(asdict(bad)).encode())


def _groups_of(asked: Asked, files: Sequence[Any], bad: BadRows) -> Iterator[list[Document]]:
    """Read some documents at a time, without those that the model cannot read if they may be left out."""
    documents = read_documents(asked.source, asked.reads, bad)
    if asked.reads.skip_bad:
        documents = drop_too_long(documents, _load(files, "cpu"), bad)
    while group := list(itertools.islice(documents, BATCH_SIZE)):
        yield group


class _Explainer:
    """Holds the model, and explains one group after the other."""

    def __init__(self, asked: Asked, files: Sequence[Any]) -> None:
        import torch

        torch.set_num_threads(1)  # there is a worker for each core
        self.asked, self.model = asked, _load(files, asked.device)

    def __call__(self, batch: Batch) -> Batch:
        """Turn documents into lines, and pass on all else."""
        [number], [kind], [content] = batch["number"], batch["kind"], batch["content"]
        if kind != "documents":
            return row(number, kind, content)
        try:
            return row(number, "lines", self.lines_of(pickle.loads(content)).encode())  # noqa: S301 - the reader's
        except (ValueError, TypeError) as error:
            return row(number, "wrong", str(error).encode())

    def lines_of(self, documents: list[Document]) -> str:
        """Explain documents that are explained together."""
        explained = self.model.explain(documents, ratio=self.asked.ratio)
        records = (to_record(explanation, self.asked.scores) for explanation in explained)
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def row(number: int, kind: str, content: bytes) -> Batch:
    """Make a row."""
    return {"number": [number], "kind": [kind], "content": [content]}


def _load(files: Sequence[Any], device: str) -> Rationalizer:
    """Load the model from its files, wherever in the cluster they are."""
    import ray

    return from_files(ray.get(files[0]), device)
