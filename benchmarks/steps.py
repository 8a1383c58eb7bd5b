"""What a training step costs on a GPU: with and without 16-bit weights, padding and recording.

    python benchmarks/steps.py ENCODER [--texts 32] [--pieces 32 512] [--steps 100] [--kernels 20] [--at-once 10]

Texts are of random words and of lengths from a half of the longest on. Times are of the device, in milliseconds a step.
--kernels lists what it spends them on, for the engine as it is. --at-once has so many processes make the same steps, as
the workers of a grid do that share a card (under NVIDIA's MPS if that runs), and counts how many they make together.
--ways takes only some of the ways, by their numbers from 0.
"""

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from fresh.config import from_mapping
from fresh.methods.config import FreshConfig
from fresh.nn.attention import without_padding
from fresh.nn.classifier import Classifier
from fresh.nn.tokenizer import Text
from fresh.training.cuda_graphs import GraphedTrainStep
from fresh.training.distributed import process_group
from fresh.training.fit import TrainingPairs, build, prepare
from fresh.training.loop import RunContext, TrainingJob, train_epoch
from fresh.training.step import TrainStep

LABELS = ("one", "other")
SENTENCE = "the old film was good and a story of two men at sea told with great patience but bad ending"


@dataclass(frozen=True, slots=True)
class Way:
    """How steps are made."""

    rounded: bool = True
    ragged: bool = True
    recorded: bool = True

    def __str__(self) -> str:
        named = {"16-bit weights": self.rounded, "no padding": self.ragged, "recorded": self.recorded}
        return ", ".join(name for name, on in named.items() if on) or "plain"


WAYS = (
    Way(),
    Way(rounded=False),
    Way(ragged=False),
    Way(rounded=False, ragged=False),
    Way(recorded=False),
)


def texts(n_texts: int, n_pieces: int, seed: int) -> list[tuple[Text, str]]:
    """Make up texts and labels."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(n_pieces // 2, n_pieces - 1, n_texts)
    drawn = [generator.choice(SENTENCE.split(), length).tolist() for length in lengths]
    return [(Text(tuple(words), (), str(number)), LABELS[number % 2]) for number, words in enumerate(drawn)]


def prepared(encoder: str, n_texts: int, n_pieces: int, n_steps: int) -> tuple[Classifier, TrainingJob]:
    """Make a network and what it is to be trained on."""
    given = {"encoder": encoder, "layers": "all", "precision": "bf16", "batch_size": n_texts, "epochs": 1}
    config = from_mapping(FreshConfig, given)
    pairs = texts(n_texts * n_steps, n_pieces, 0)
    classifier = build(Classifier, sorted({label for _, label in pairs}), config)
    job = prepare(classifier, TrainingPairs(pairs, pairs[:n_texts]), config, RunContext())
    return classifier, job


def update_of(job: TrainingJob, way: Way) -> TrainStep:
    """Make what makes steps."""
    kind = GraphedTrainStep if way.recorded and job.inputs.device.type == "cuda" else TrainStep
    return kind(job.model, job.loss, job.config, process_group(), way.rounded)


@contextmanager
def waited() -> Iterator[None]:
    """Have the device done with all of it at the end."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure(classifier: Classifier, job: TrainingJob, way: Way, ready: Callable[[], object] = int) -> dict[str, float]:
    """Make two epochs and time the second.

    :param ready: Called before each; waits for others.
    """
    update, seconds = update_of(job, way), []
    classifier.train()
    with without_padding(classifier, way.ragged):
        for epoch in range(2):
            ready()
            started = time.perf_counter()
            with waited():
                train_epoch(job, update, epoch, lambda _steps, _note: None)
            seconds.append(time.perf_counter() - started)
    return {"first epoch, s": seconds[0], "ms a step": 1000 * seconds[1] / len(job.batches(1))}


def measure_one(wire: Connection, barrier: Barrier, shape: tuple[str, int, int, int], way: Way) -> None:
    """Measure beside others, and tell over the wire."""
    wire.send(measure(*prepared(*shape), way, barrier.wait))


def measure_many(n_processes: int, shape: tuple[str, int, int, int], way: Way) -> dict[str, float]:
    """Have several processes make the same steps at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(n_processes)
    wires = [context.Pipe(duplex=False) for _ in range(n_processes)]
    processes = [
        context.Process(target=measure_one, args=(ours, barrier, shape, way), daemon=True) for _, ours in wires
    ]
    for process in processes:
        process.start()
    for _, ours in wires:
        ours.close()  # so that the wire of a process that dies is cut
    found = [wire.recv() for wire, _ in wires]
    for process in processes:
        process.join()
    first, each = (sum(item[name] for item in found) / n_processes for name in ("first epoch, s", "ms a step"))
    return {"first epoch, s": first, "ms a step": each, "steps a second": 1000 * n_processes / each}


def kernels(classifier: Classifier, job: TrainingJob, n_most: int) -> Iterator[str]:
    """List what the device spends an epoch of steps on."""
    update = update_of(job, Way())
    classifier.train()
    with without_padding(classifier):
        train_epoch(job, update, 0, lambda _steps, _note: None)
        with profile(activities=[ProfilerActivity.CUDA]) as found, waited():
            train_epoch(job, update, 1, lambda _steps, _note: None)
    n_steps = len(job.batches(1))
    events = sorted((item for item in found.key_averages()), key=lambda item: -item.self_device_time_total)
    total = sum(item.self_device_time_total for item in events)
    yield f"{total / n_steps / 1000:.2f} ms and {sum(item.count for item in events) / n_steps:.0f} kernels a step"
    for item in itertools.islice(events, n_most):
        share, each = item.self_device_time_total / total, item.self_device_time_total / item.count
        yield f"{share:6.1%} {item.count / n_steps:6.1f} x {each:8.1f} us  {item.key[:120]}"


def main() -> None:
    """Print a line for each shape and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--pieces", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--kernels", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--ways", type=int, nargs="+", choices=range(len(WAYS)), default=list(range(len(WAYS))))
    args = parser.parse_args()
    for n_pieces, way in itertools.product(args.pieces, [WAYS[number] for number in args.ways]):
        shape = {"texts": args.texts, "pieces": n_pieces, "at once": args.at_once}
        given = (args.encoder, args.texts, n_pieces, args.steps)
        try:
            found = measure(*prepared(*given), way) if args.at_once == 1 else measure_many(args.at_once, given, way)
        except Exception as error:  # noqa: BLE001 - one way may fail here, the others go on
            print(json.dumps({"way": str(way), **shape, "error": str(error)[:300]}), flush=True)
            continue
        print(
            json.dumps({"way": str(way), **shape, **{name: round(value, 3) for name, value in found.items()}}),
            flush=True,
        )
    for n_pieces in args.pieces if args.kernels else ():
        print(f"{args.texts} texts of {n_pieces} pieces")
        for line in kernels(*prepared(args.encoder, args.texts, n_pieces, args.steps), args.kernels):
            print(line)


if __name__ == "__main__":
    main()
