"""Sign-in codes: wrong ones are counted by address, and slow down what comes from there."""

import ipaddress
import threading
import time
from collections import deque
from collections.abc import Callable

from fresh.web.problems import Problem

MOST_ADDRESSES = 10_000
WAITING = 4
"""Codes from slowed addresses that are checked or wait: each occupies one of the 40 threads of the server."""
BUSY = (
    "Many wrong codes came from your network, so codes from there are checked one at a time. Try again in a few "
    "seconds."
)


class Tries:
    """Checks codes; after many wrong ones from an address, codes from there are checked one at a time."""

    # A limit that also refuses right codes locks people out: a school, an office or a proxy is one address, and
    # anybody there can use up its tries. The length of codes makes guessing infeasible, not a limit. A guess names an
    # annotator and one of 31^12 = 8e17 secrets, so more annotators do not make it easier. However many addresses take
    # part, a server hashes at most 4 codes at a time, about 50 ms each: 80 guesses a second, 2.5e9 a year, of which
    # one is right with a probability of 3e-9. A secret of the admin page that somebody made up can be weaker. That is
    # what the pause after a wrong code is for: all slowed addresses together get 86,400 guesses a day, beside the
    # first 20 in every 10 minutes from each address. The pause also leaves the processor to others.

    def __init__(
        self, most: int = 20, seconds: float = 600, pause: float = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self.seconds = seconds
        self.pause = pause
        self.clock = clock
        self.wrong: dict[str, deque[float]] = {}
        self.lock = threading.Lock()
        self.slow = threading.Lock()
        self.places = threading.Semaphore(WAITING)

    def check(self, address: str, find: Callable[[], int | None]) -> int | None:
        """Find whose code it is, and count a wrong one.

        :param find: Gives nothing for a wrong code.
        """
        place = network(address)
        if not self.is_slowed(place):
            return self.counted(place, find())
        if not self.places.acquire(blocking=False):
            raise Problem(429, BUSY, {"Retry-After": "5"})
        try:
            with self.slow:
                found = self.counted(place, find())
                if found is None:
                    time.sleep(self.pause)
                return found
        finally:
            self.places.release()

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


def network(address: str) -> str:
    """Name whom an address belongs to: in IPv6, one person has many."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
