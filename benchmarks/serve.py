"""How `fresh serve` bears a load: clients that ask at the same time against one alone, and memory over many requests.

    python benchmarks/serve.py MODEL [--clients 32] [--rounds 7] [--requests 5000]
    python benchmarks/serve.py MODEL --clients 50 --seconds 60      only count what goes wrong in a minute

One client and many take turns with one server, and ratios are those of a round, so that they mean something where
others use the machine too; what is told is their median. cpu_time_gain is the server's processor time for a request of
one client over that for one of many: what reading together gains, whatever else the machine does.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil

SENTENCE = "the old film was good and a story of two men at sea told with great patience but bad ending"
MEGABYTE = 1024**2
TIMEOUT = 60
"""Seconds after which an answer is given up."""


@dataclass(frozen=True, slots=True)
class Load:
    """What some clients saw."""

    n_clients: int
    seconds: float
    times: tuple[float, ...]
    """Of each request that was answered."""
    errors: Counter[str]
    """What went wrong, and how often."""

    @property
    def throughput(self) -> float:
        """Requests a second."""
        return len(self.times) / self.seconds

    @property
    def median(self) -> float:
        """Half of the requests took no longer."""
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        """All but a twentieth of the requests took no longer."""
        return statistics.quantiles(self.times, n=20)[-1]

    def __str__(self) -> str:
        times = f"median {1000 * self.median:6.1f} ms, p95 {1000 * self.p95:6.1f} ms"
        asked = f"{self.n_clients:3d} client(s), {len(self.times):5d} answers, {sum(self.errors.values())} errors"
        return f"{asked}: {self.throughput:7.1f} a second, {times}"


@dataclass(frozen=True, slots=True)
class Round:
    """One client alone, then many, and what the server did meanwhile."""

    alone: Load
    crowd: Load
    alone_cpu: float
    """Seconds of processor time for a request."""
    crowd_cpu: float
    together: float
    """Texts of the many that were read together, on average."""

    def ratios(self) -> dict[str, float]:
        """Compare the many with the one."""
        return {
            "throughput_gain": self.crowd.throughput / self.alone.throughput,
            "cpu_time_gain": self.alone_cpu / self.crowd_cpu,
            "p95_over_single": self.crowd.p95 / self.alone.median,
            "p95_over_single_p95": self.crowd.p95 / self.alone.p95,
            "texts_read_together": self.together,
        }


@contextmanager
def serving(place: str, device: str) -> Iterator[tuple[str, psutil.Process]]:
    """Start the command, and give the address and the process."""
    command = [sys.executable, "-m", "fresh", "serve", f"model={place}", "--port", "0", "--device", device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        if " at http://" not in said:
            raise SystemExit("The server did not start. What it said stands above.")
        yield said.split(" at ")[1].split()[0], psutil.Process(process.pid)
        process.terminate()


def text(number: int) -> str:
    """Make a text of twenty words, another one each time."""
    words = SENTENCE.split()
    return " ".join(words[(number * 7 + place * (1 + number % 5)) % len(words)] for place in range(20))


def requests(n_requests: int, host: str) -> list[bytes]:
    """Write requests; by hand and before the clock runs, since clients share the machine with the server."""
    head = f"POST /v1/models/model/explain HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    bodies = [json.dumps({"text": text(number)}) for number in range(n_requests)]
    return [f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii") for body in bodies]


async def answered(reader: asyncio.StreamReader) -> None:
    """Read an answer, which must be a good one."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(f"The server refused a request: {head!r:.80}")
    [length] = re.findall(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length))


async def measure(address: str, n_clients: int, asked: Iterable[bytes], seconds: float | None = None) -> Load:
    """Have clients ask one request after the other each, all at the same time.

    :param seconds: How long they go on, if not to the end of the requests.
    """
    numbers, place = iter(asked), urlsplit(address)
    times: list[float] = []
    errors: Counter[str] = Counter()
    start = time.perf_counter()

    async def client() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for request in numbers:
            begin = time.perf_counter()
            if seconds is not None and begin > start + seconds:
                break
            writer.write(request)
            try:
                await asyncio.wait_for(answered(reader), TIMEOUT)
            except (OSError, EOFError, RuntimeError, TimeoutError) as error:
                errors[str(error) or type(error).__name__] += 1
                reader, writer = await asyncio.open_connection(place.hostname, place.port)
            else:
                times.append(time.perf_counter() - begin)
        writer.close()

    await asyncio.gather(*(client() for _ in range(n_clients)))
    return Load(n_clients, time.perf_counter() - start, tuple(times), errors)


def batches(address: str) -> tuple[float, float]:
    """Ask how many texts were read so far, and in how many goes."""
    with urlopen(f"{address}metrics") as answer:  # noqa: S310
        told = answer.read().decode()
    texts, goes = (
        float(re.findall(rf"^fresh_batch_texts_{name}.* (\S+)$", told, re.M)[0]) for name in ("sum", "count")
    )
    return texts, goes


def cpu_seconds(server: psutil.Process) -> float:
    """Say how much processor time a process took so far."""
    return float(sum(server.cpu_times()[:2]))


def take_turns(address: str, server: psutil.Process, args: argparse.Namespace) -> Round:
    """Measure one client, then many."""
    host = urlsplit(address).netloc
    few, many = requests(args.few, host), requests(args.few * args.clients // 2, host)
    spent = [cpu_seconds(server)]
    alone = asyncio.run(measure(address, 1, few))
    spent.append(cpu_seconds(server))
    texts, goes = batches(address)
    crowd = asyncio.run(measure(address, args.clients, many))
    spent.append(cpu_seconds(server))
    more_texts, more_goes = batches(address)
    together = (more_texts - texts) / (more_goes - goes)
    return Round(alone, crowd, (spent[1] - spent[0]) / len(few), (spent[2] - spent[1]) / len(many), together)


def compare(address: str, server: psutil.Process, args: argparse.Namespace) -> dict[str, float | bool]:
    """Measure one client and many in turns, and what memory does."""
    host = urlsplit(address).netloc
    asyncio.run(measure(address, args.clients, requests(10 * args.clients, host)))  # warm
    rounds = [take_turns(address, server, args) for _ in range(args.rounds)]
    before = server.memory_info().rss
    many = asyncio.run(measure(address, args.clients, requests(args.requests, host)))
    after = server.memory_info().rss
    loads = [*(load for one in rounds for load in (one.alone, one.crowd)), many]
    print(*loads, sep="\n")
    ratios = [one.ratios() for one in rounds]
    found = {name: round(statistics.median(one[name] for one in ratios), 2) for name in ratios[0]}
    errors = sum(sum(load.errors.values()) for load in loads)
    met = found["throughput_gain"] >= 3 and found["p95_over_single"] < 10 and after / before < 1.05 and not errors
    return {
        **found,
        "memory_before_mb": round(before / MEGABYTE, 1),
        "memory_after_mb": round(after / MEGABYTE, 1),
        "memory_growth": round(after / before - 1, 4),
        "errors": errors,
        "met": met,
    }


def endure(address: str, args: argparse.Namespace) -> dict[str, float | bool]:
    """Count what goes wrong while clients ask for some time."""
    asked = requests(1000, urlsplit(address).netloc)
    found = asyncio.run(measure(address, args.clients, cycle(asked), args.seconds))
    print(found)
    for error, count in found.errors.items():
        print(f"{count} times: {error}")
    return {"answers": len(found.times), "errors": sum(found.errors.values()), "met": not found.errors}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a saved model")
    parser.add_argument("--clients", type=int, default=32, help="clients at the same time (default: 32)")
    parser.add_argument("--rounds", type=int, default=7, help="how often one and many take their turn (default: 7)")
    parser.add_argument("--few", type=int, default=50, help="requests of one client in a round (default: 50)")
    parser.add_argument("--requests", type=int, default=5000, help="requests over which memory is watched")
    parser.add_argument("--seconds", type=float, help="only count errors of clients that ask for so long")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    args = parser.parse_args()
    with serving(args.model, args.device) as (address, server):
        found = compare(address, server, args) if args.seconds is None else endure(address, args)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
