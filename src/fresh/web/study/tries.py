"""Wrong codes are counted, so that nobody can try many."""

import ipaddress
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from fresh.study.wording import plural
from fresh.web.problems import Problem

MOST_ADDRESSES = 10_000


class Tries:
    """How often wrong codes came from each address within a while; a right one is not held against anybody."""

    def __init__(self, most: int = 20, seconds: float = 600, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.seconds = seconds
        self.clock = clock
        self.wrong: dict[str, deque[float]] = {}
        self.lock = threading.Lock()

    def begin(self, address: str) -> None:
        """Let somebody try; counted before it is known how it ends, so that many at once are counted too."""
        at, place = self.clock(), network(address)
        with self.lock:
            if len(self.wrong) >= MOST_ADDRESSES:
                self.wrong = {name: times for name, times in self.wrong.items() if times[-1] > at - self.seconds}
            times = self.wrong.setdefault(place, deque())
            while times and times[0] <= at - self.seconds:
                times.popleft()
            if len(times) >= self.most:
                raise too_many(times[0] + self.seconds - at)
            times.append(at)

    def forgive(self, address: str) -> None:
        """Take back a try that was right."""
        place = network(address)
        with self.lock:
            times = self.wrong.get(place)
            if times:
                times.pop()
            if not times:
                self.wrong.pop(place, None)


def too_many(seconds: float) -> Problem:
    """Say how long to wait."""
    minutes = max(1, math.ceil(seconds / 60))
    told = f"Too many wrong codes came from here. Wait {plural(minutes, 'minute')}, then try again."
    return Problem(429, told, {"Retry-After": str(max(1, math.ceil(seconds)))})


def network(address: str) -> str:
    """Name whom an address belongs to: in IPv6, one person has many."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
