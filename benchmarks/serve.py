"""How `fresh serve` bears a load: clients that ask at the same time against one alone, and memory over many requests.

    python benchmarks/serve.py MODEL [--clients 32] [--requests 5000]

All figures are of one run on one machine, so that their ratios mean something where the figures themselves do not.
Where others use the machine too, cpu_time_gain (the server's processor time for a request of one client over that for
one of many) says what reading together gains.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import statistics
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil

from fresh.web.measures import Measures
from fresh.web.models import load
from fresh.web.serve import create_app
from fresh.web.server import address_of, bind, serving

SENTENCE = "the old film was good and a story of two men at sea told with great patience but bad ending"
MEGABYTE = 1024**2


@dataclass(frozen=True, slots=True)
class Load:
    """What some clients saw."""

    n_clients: int
    seconds: float
    times: tuple[float, ...]
    """Of each request."""

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


def serve(place: str, device: str, told: Connection) -> None:
    """Serve a model in a process of its own."""
    measures = Measures()
    with bind("127.0.0.1", 0) as taken:
        app = create_app(load([f"model={place}"], device, measures), measures)
        told.send(address_of(taken))
        serving(app).run(sockets=[taken])


def text(number: int) -> str:
    """Make a text of twenty words, another one each time."""
    words = SENTENCE.split()
    return " ".join(words[(number * 7 + place * (1 + number % 5)) % len(words)] for place in range(20))


def asked(number: int, host: str) -> bytes:
    """Write a request; by hand, since clients share the machine with the server and must take little of it."""
    body = json.dumps({"text": text(number)})
    head = f"POST /v1/models/model/explain HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii")


async def answered(reader: asyncio.StreamReader) -> None:
    """Read an answer, which must be a good one."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(f"The server refused a request: {head!r:.80}")
    [length] = re.findall(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length))


async def measure(address: str, n_clients: int, n_requests: int) -> Load:
    """Have clients ask one request after the other each, all at the same time."""
    numbers = iter(range(n_requests))
    times: list[float] = []

    async def client() -> None:
        place = urlsplit(address)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for number in numbers:
            request = asked(number, place.netloc)
            begin = time.perf_counter()
            writer.write(request)
            await answered(reader)
            times.append(time.perf_counter() - begin)
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(n_clients)))
    return Load(n_clients, time.perf_counter() - begin, tuple(times))


def batch_size(address: str) -> float:
    """Ask how many texts were read together on average, the single client's too."""
    with urlopen(f"{address}metrics") as answer:  # noqa: S310
        told = answer.read().decode()
    texts, batches = (
        float(re.findall(rf"^fresh_batch_texts_{name}.* (\S+)$", told, re.M)[0]) for name in ("sum", "count")
    )
    return texts / batches


def run(args: argparse.Namespace) -> dict[str, float | bool]:
    """Measure one client, many, and what memory does."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(args.model, args.device, there), daemon=True)
    process.start()
    address = here.recv()
    server = psutil.Process(process.pid)
    memory = server.memory_info
    asyncio.run(measure(address, args.clients, 10 * args.clients))  # warm
    spent = [sum(server.cpu_times()[:2])]
    alone = asyncio.run(measure(address, 1, args.few))
    spent.append(sum(server.cpu_times()[:2]))
    crowd = asyncio.run(measure(address, args.clients, 4 * args.few))
    spent.append(sum(server.cpu_times()[:2]))
    together = batch_size(address)
    before = memory().rss
    many = asyncio.run(measure(address, args.clients, args.requests))
    after = memory().rss
    process.terminate()
    process.join()
    for each in (alone, crowd, many):
        figures = f"{each.throughput:7.1f} a second, median {1000 * each.median:6.1f} ms, p95 {1000 * each.p95:6.1f} ms"
        print(f"{each.n_clients:3d} client(s), {len(each.times):5d} requests: {figures}")
    gain, slower = crowd.throughput / alone.throughput, crowd.p95 / alone.median
    return {
        "throughput_gain": round(gain, 2),
        "cpu_time_gain": round(4 * (spent[1] - spent[0]) / (spent[2] - spent[1]), 2),
        "p95_over_single": round(slower, 2),
        "texts_read_together": round(together, 1),
        "memory_before_mb": round(before / MEGABYTE, 1),
        "memory_after_mb": round(after / MEGABYTE, 1),
        "memory_growth": round(after / before - 1, 4),
        "met": gain >= 3 and slower < 10 and after / before < 1.05,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a saved model")
    parser.add_argument("--clients", type=int, default=32, help="clients at the same time (default: 32)")
    parser.add_argument("--requests", type=int, default=5000, help="requests over which memory is watched")
    parser.add_argument("--few", type=int, default=200, help="requests of the single client (default: 200)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    print(json.dumps(run(parser.parse_args())))


if __name__ == "__main__":
    main()
