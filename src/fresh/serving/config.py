"""Settings of `fresh serve`."""

from dataclasses import dataclass, field

from fresh.config import check_above, raise_all
from fresh.text import plural
from fresh.web.security import check_host

MAX_CHARACTERS = 100_000  # of a text
MAX_TEXTS = 64  # of a request
MAX_WORDS = 50_000  # of a request that gives its words one by one


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How many texts are computed together, and how many may wait."""

    max_texts: int = 32
    """Texts in a batch, unless a single request has more."""
    max_words: int = 16_384
    """Words in a batch, unless a single request has more."""
    max_waiting: int = 256
    """Texts that may wait."""
    words_per_turn: int = 2048
    """Words of one request, or of files, that are computed before others have their turn; at least one text."""
    patience: float = 0.5
    """How long to wait for the next requests of the clients of the last batch, as a share of the time it took."""
    min_pause: float = 0.03
    """Shortest such wait, in seconds: clients may need longer than a batch takes."""
    max_pause: float = 0.25
    """Longest such wait, in seconds."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """How many uploaded files are accepted, how large, and how long their results are kept."""

    max_bytes: int = 20 * 1024**2
    """Size of a file."""
    max_rows: int = 10_000
    """Rows of a file."""
    max_jobs: int = 20
    """Files on the server, with their results."""
    keep_seconds: float = 3600.0
    """How long results are kept after a job ends."""

    @property
    def keep_time(self) -> str:
        """How long results are kept, in words."""
        return plural(self.keep_seconds / 60, "minute")


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """How a server is reached, and how much it accepts."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    allow_hosts: frozenset[str] = frozenset()
    """Additional names under which the server may be reached, such as that of a reverse proxy."""
    timeout: float = 30.0
    """Seconds within which a request must arrive, and then be answered."""
    jobs: JobLimits = field(default_factory=JobLimits)
    """Limits of uploaded files."""

    def __post_init__(self) -> None:
        raise_all(*map(check_host, sorted(self.allow_hosts)), *check_above(0, timeout=self.timeout))
