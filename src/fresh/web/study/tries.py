"""Sign-in codes: wrong ones are counted by address, and slow down what comes from there."""

import ipaddress
import threading
import time
from collections import deque
from collections.abc import Callable

from fresh.web.problems import Problem

MOST_ADDRESSES = 10_000
WAITING = 4
"""Codes from slowed addresses that are checked or wait for it: each holds one of the server's 40 threads."""
BUSY = (
    "Many wrong codes came from your network, so codes from there are checked one at a time. Try again in a few "
    "seconds."
)


class Tries:
    """Checks codes; after many wrong ones from an address, those from there are checked one at a time.

    A right code is never refused for the wrong ones of others: a school, an office or a proxy is one address, and
    whoever is in it could lock out all others. What keeps guessing infeasible is the length of codes, not a lock: one
    of 31^12 = 8 * 10^17 secrets opens an annotator's door, and a guess has to name the annotator, so that more
    annotators make it no easier. A server hashes at most 4 codes at a time, 50 ms each, so at most 80 guesses a second
    from however many addresses: 2.5 * 10^9 a year, which succeed with a chance of 3 * 10^-9. A secret of the admin page
    that somebody made up may be easier to guess. So slowed addresses get one wrong answer a second, all of them
    together: 86,400 a day, and 20 every 10 minutes from each new address.
    """

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
            times = self.wrong.get(place, ())
            return len(times) >= self.most and times[0] > self.clock() - self.seconds

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
