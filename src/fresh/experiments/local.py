"""The local engine: processes on this machine, several to a card."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from fresh.errors import ConfigError
from fresh.experiments.executor import TaskEnd
from fresh.experiments.plan import Task
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Outcome, Worker

GB_A_WORKER = 16
"""Memory of a card that a worker is given."""
WORKERS_A_CARD = 6
"""How many workers share a card at most: more get in each other's way."""


@dataclass(slots=True)
class _Hand:
    """A process, the wire to it, and what it is at."""

    process: BaseProcess
    wire: Connection
    card: str | None
    task: Task | None = None
    corpus: str = ""
    """The corpus that it was last at, which it need not read again."""


def _serve(wire: Connection, folder: Path, data_dir: Path | None, card: str | None, n_threads: int) -> None:
    """Do the tasks that come over the wire until it is cut, or until who holds its other end is no more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if card is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = card  # in time: torch looks at the cards when it needs one
    torch.set_num_threads(n_threads)
    worker = Worker(RunStore(folder), data_dir)
    while True:
        try:
            task = wire.recv()
            wire.send(worker.perform(task))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    """End this process, whatever it is at, when the one that began it ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class LocalExecutor:
    """Does tasks in processes of its own, each of which stays for the next task."""

    def __init__(self, folder: Path, data_dir: Path | None, n_workers: int | None = None) -> None:
        memory, n_cores = card_memory(), os.cpu_count() or 1
        self.cards = _card_names(len(memory), os.environ.get("CUDA_VISIBLE_DEVICES"))
        self.places = (folder, data_dir)
        self._n_workers = n_workers if n_workers is not None else usual_workers(memory, n_cores)
        if self._n_workers < 1:
            raise ConfigError(f"workers must be at least 1, got {n_workers}.")
        self.n_threads = min(torch.get_num_threads(), max(1, n_cores // self._n_workers))
        self.hands: list[_Hand] = []
        self.lost: deque[Task] = deque()

    @property
    def n_workers(self) -> int:
        """How many tasks it does at once."""
        return self._n_workers

    def get_ready(self, n_tasks: int) -> None:
        """Begin processes now: before one can do anything, it loads libraries for some seconds."""
        while len(self.hands) < min(n_tasks, self._n_workers):
            self.hire()

    def start(self, task: Task) -> None:
        """Have a task done, by the free process that was last at the same corpus if there is one."""
        free = [hand for hand in self.hands if hand.task is None]
        hand = min(free, key=lambda hand: hand.corpus != task.cell.corpus) if free else self.hire()
        hand.task, hand.corpus = task, task.cell.corpus
        try:
            hand.wire.send(task)
        except OSError:  # it died while it had nothing to do
            self.lost.append(self.dismiss(hand))

    def hire(self) -> _Hand:
        """Begin another process, on the card that the fewest are on."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        taken = [hand.card for hand in self.hands]
        card = min(self.cards, key=taken.count) if self.cards else None
        process = context.Process(target=_serve, args=(theirs, *self.places, card, self.n_threads), daemon=True)
        with _deaf_to_interrupts():
            process.start()
        theirs.close()
        hand = _Hand(process, ours, card)
        self.hands.append(hand)
        return hand

    def dismiss(self, hand: _Hand) -> Task:
        """Let go of a process that died, and say what it was at."""
        self.hands.remove(hand)
        hand.wire.close()
        hand.process.join()
        assert hand.task is not None
        return hand.task

    def wait(self) -> TaskEnd:
        """Wait until a process ends a task, or dies."""
        if self.lost:
            return TaskEnd(self.lost.popleft(), None)
        busy = {hand.wire: hand for hand in self.hands if hand.task is not None}
        hand = busy[next(wire for wire in wait(list(busy)) if isinstance(wire, Connection))]
        try:
            outcome: Outcome = hand.wire.recv()
        except (EOFError, OSError):
            return TaskEnd(self.dismiss(hand), None)
        task, hand.task = hand.task, None
        assert task is not None
        return TaskEnd(task, outcome)

    def make_room(self) -> None:
        """End all processes but one that have nothing to do: each holds some memory of a card."""
        self.end([hand for hand in self.hands if hand.task is None][1:])

    def close(self) -> None:
        """End all processes; what they are at is broken off and goes on next time."""
        self.end(list(self.hands))

    def end(self, hands: Sequence[_Hand]) -> None:
        """End some processes."""
        for hand in hands:
            hand.process.terminate()
        for hand in hands:
            hand.process.join()
            hand.wire.close()
            self.hands.remove(hand)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Have processes that are begun in the block not hear Ctrl-C: who began them does, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _card_names(n_cards: int, visible: str | None) -> list[str]:
    """Name the cards as CUDA does, some of which may be hidden."""
    return visible.split(",")[:n_cards] if visible else [str(number) for number in range(n_cards)]


def card_memory() -> list[float]:
    """Find the memory of each card, in GB."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_properties(number).total_memory / 1e9 for number in range(torch.cuda.device_count())]


def usual_workers(cards: list[float], n_cores: int) -> int:
    """Choose how many processes share the machine: as many as fit on its cards, or one for every two cores."""
    if not cards:
        return max(1, n_cores // 2)
    fitting = sum(min(WORKERS_A_CARD, max(1, int(memory // GB_A_WORKER))) for memory in cards)
    return max(1, min(fitting, n_cores))
