"""Sign-in codes: wrong ones are counted by address, and slow down what comes from there."""

import asyncio
import ipaddress
import threading
import time
from collections import deque
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool

from fresh.web.errors import Problem

MOST_ADDRESSES = 10_000
WAITING = 4
"""Codes from one slowed address that are checked, or wait after a wrong code, at the same time."""
BUSY = f"Many wrong codes came from your network, so only {WAITING} at a time are checked. Try again in a few seconds."


class RateLimiter:
    """Checks codes; after many wrong codes from an address, limits how fast codes from there are checked."""

    # A slowed address gets 4 guesses a second: WAITING at a time, each with a pause of a second. The limit is per
    # address, so no address can block another; right codes stay valid, since a school or a proxy is one address. The
    # length of codes (31^12 = 8e17 secrets) makes guessing infeasible; the pause is for made-up admin secrets.

    def __init__(
        self, most: int = 20, seconds: float = 600, pause: float = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self.seconds = seconds
        self.pause = pause
        self.clock = clock
        self.wrong: dict[str, deque[float]] = {}
        self.under_way: dict[str, int] = {}
        self.lock = threading.Lock()

    async def check(self, address: str, find: Callable[[], int | None]) -> int | None:
        """Find whose code it is, and count a wrong one.

        :param find: Gives nothing for a wrong code; runs in a thread.
        """
        place = _network(address)
        if not self.is_slowed(place):
            return self.counted(place, await run_in_threadpool(find))
        with self.lock:
            n_under_way = self.under_way.get(place, 0)
            if n_under_way >= WAITING:
                raise Problem(429, BUSY, {"Retry-After": "5"})
            self.under_way[place] = n_under_way + 1
        try:
            found = self.counted(place, await run_in_threadpool(find))
            if found is None:
                await asyncio.sleep(self.pause)
            return found
        finally:
            with self.lock:
                self.under_way[place] -= 1
                if not self.under_way[place]:
                    del self.under_way[place]

    def is_slowed(self, place: str) -> bool:
        """Say whether many wrong codes came from an address lately."""
        with self.lock:
            times = self.wrong.get(place)
            return times is not None and len(times) >= self.most and times[0] > self.clock() - self.seconds

    def counted(self, place: str, found: int | None) -> int | None:
        """Count a wrong code."""
        if found is None:
            at = self.clock()
            with self.lock:
                if len(self.wrong) >= MOST_ADDRESSES:
                    self.wrong = {name: times for name, times in self.wrong.items() if times[-1] > at - self.seconds}
                self.wrong.setdefault(place, deque(maxlen=self.most)).append(at)
        return found


def _network(address: str) -> str:
    """Name whom an address belongs to: in IPv6, one person has many."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
