"""Who asks: signed sessions that run out, tokens for forms, and names of items that tell nothing about them."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

Role = Literal["visitor", "annotator", "admin"]
HOUR = 3_600_000
TOKEN = re.compile(
    r"(?P<told>(?P<role>[a-z]+)\.(?P<who>[0-9]{1,9})\.(?P<at>[0-9]{1,15})\.(?P<nonce>[0-9a-f]+))\.(?P<signature>[0-9a-f]{64})"
)


def _unmarked(_who: int) -> str:
    """Mark nobody's sessions."""
    return ""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who came in, or who may."""

    role: Role
    who: int
    """Number of an annotator; 0 for others."""
    at: int
    """When they were last here, in milliseconds since 1970."""
    nonce: str
    """Drawn when they came in; stays the same as long as they do."""
    mark: str = field(default="", compare=False)
    """What it was marked with when it was read: a session that has ended meanwhile is not renewed with the new mark."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs for a study; all its servers have the same key, so that each reads what another signed."""

    key: bytes
    hours: float = 12.0
    """How long a session lasts in which nothing happens."""

    def begin(self, role: Role, at: int, who: int = 0) -> Session:
        """Let somebody in."""
        return Session(role, who, at, secrets.token_hex(16))

    def write(self, session: Session, mark: str = "") -> str:
        """Write a session as it is kept by a browser.

        :param mark: What else must be the same when it is read.
        """
        told = f"{session.role}.{session.who}.{session.at}.{session.nonce}"
        return f"{told}.{self.sign('session', told, mark)}"

    def read(self, token: str, role: Role, mark_of: Callable[[int], str] = _unmarked) -> Session | None:
        """Read a session, unless it is of another role, or was not signed here.

        :param mark_of: Says for whoever it claims to be of what it must be marked with.
        """
        found = TOKEN.fullmatch(token)
        if found is None or found["role"] != role:
            return None
        who = int(found["who"])
        mark = mark_of(who)
        if not same(found["signature"], self.sign("session", found["told"], mark)):
            return None
        return Session(role, who, int(found["at"]), found["nonce"], mark)

    def is_over(self, session: Session, at: int) -> bool:
        """Say whether somebody was away for too long."""
        return at - session.at > self.hours * HOUR

    def renewed(self, session: Session, at: int) -> Session:
        """Take note that somebody is here."""
        return replace(session, at=at)

    def form_token(self, session: Session) -> str:
        """Make what a form must hold to be one of ours, shown in this session."""
        return self.sign("form", session.role, session.nonce)

    def ticket(self, annotator: int, item: int) -> str:
        """Name an item for one annotator; nobody can tell from it which kind or condition it is."""
        return self.sign("item", str(annotator), str(item))[:32]

    def sign(self, *parts: str) -> str:
        """Sign a text of some parts."""
        return hmac.new(self.key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()

    @property
    def name(self) -> str:
        """Name the study, so that two at one address do not take each other's cookies."""
        return f"study_{self.sign('name')[:8]}"


def same(one: str, other: str) -> bool:
    """Compare in a time that tells nothing about where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
