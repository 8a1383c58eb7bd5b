"""Annotators: their sign-in codes, which nobody can read back, and their coming and going."""

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from fresh.errors import StudyError
from fresh.study.answer import RepeatedError
from fresh.study.schema import AnnotatorRow, AssignmentRow, ItemRow, StudyRow
from fresh.study.store import Store, now

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that are taken for others."""
N_LETTERS = 12
NOBODY = "00" * 16
ADDED = (
    "There are more annotators than when this was asked for: the codes may have been made already, and each is shown "
    "once. Look who has begun; whoever has no code gets a new one."
)
RENEWED = (
    "Annotator {annotator} has got a new code already, which is shown once. If nobody has it, go back and make another."
)


@dataclass(frozen=True, slots=True)
class _Annotator:
    """Somebody who takes part."""

    id: int
    state: str
    """active, left or excluded."""
    consented: bool
    outside: str | None = None
    """What a crowd platform calls them."""


def make_secret() -> str:
    """Draw the secret part of a code: more than 10^17 are possible."""
    return "".join(secrets.choice(LETTERS) for _ in range(N_LETTERS))


def hashed(secret: str, salt: str) -> str:
    """Hash a secret so that it takes long to try many."""
    return hashlib.scrypt(secret.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1, dklen=32).hex()


def newest(store: Store) -> int:
    """Give the highest number that an annotator has; 0 while there is none."""
    with store.reading() as session:
        return session.scalar(select(func.max(AnnotatorRow.id))) or 0


def add_annotators(store: Store, n: int, after: int | None = None) -> list[str]:
    """Let more people take part.

    :param after: The number that was the highest when this was asked for; if it is not any more, this may be a
        repetition, and is refused.
    :return: Their codes, which are not kept anywhere else.
    """
    if n < 1:
        raise StudyError(f"The number of annotators must be at least 1, got {n}.")
    made = [(make_secret(), secrets.token_hex(16)) for _ in range(n)]
    rows = [AnnotatorRow(salt=salt, code=hashed(secret, salt), state="active") for secret, salt in made]
    with store.writing() as session:
        session.execute(select(StudyRow.id).with_for_update())  # so that nobody else adds any meanwhile
        if after is not None and after != (session.scalar(select(func.max(AnnotatorRow.id))) or 0):
            raise RepeatedError(ADDED)
        session.add_all(rows)
        session.flush()
        return [_written(row.id, secret) for row, (secret, _) in zip(rows, made, strict=True)]


def _written(annotator: int, secret: str) -> str:
    """Write a code as people get it."""
    return f"{annotator}-{secret[:4]}-{secret[4:8]}-{secret[8:]}"


def _as_meant(code: str) -> tuple[str, str]:
    """Take a code apart into number and secret, in large or small letters, with any spaces and dashes or without."""
    letters = unicodedata.normalize("NFKC", code).lower()
    plain = "".join(letter for letter in letters if letter.isalnum())
    return plain[:-N_LETTERS], plain[-N_LETTERS:]


def sign_in(store: Store, code: str) -> _Annotator | None:
    """Find who has a code; nobody if it is wrong. A wrong one takes as long as a right one."""
    number, secret = _as_meant(code)
    with store.reading() as session:
        known = number.isascii() and number.isdigit() and len(number) < 10
        row = session.get(AnnotatorRow, int(number)) if known else None
        found = hashed(secret, NOBODY if row is None else row.salt)
        if row is None or not hmac.compare_digest(found, row.code):
            return None
        return _annotator_of(row)


def _enrol(store: Store, outside: str) -> _Annotator:
    """Find, or take in, somebody whom a crowd platform vouches for, by the name that they have there."""
    if not outside.strip():
        raise StudyError("Somebody from a crowd platform needs the name that they have there, got nothing.")
    with store.writing() as session:
        if session.bind is not None and session.bind.dialect.name == "postgresql":
            session.execute(select(StudyRow.id).with_for_update())  # so that nobody is taken in twice
        return _annotator_of(taken_in(session, outside.strip(), new_code))


def new_code() -> tuple[str, str]:
    """Draw a code that nobody is told: its salt, and its hash, which takes long to compute."""
    salt = secrets.token_hex(16)
    return salt, hashed(make_secret(), salt)


def taken_in(session: Session, name: str, draw: Callable[[], tuple[str, str]]) -> AnnotatorRow:
    """Find, or take in, somebody by the name that they have elsewhere.

    :param draw: Gives salt and code of whoever is new.
    """
    row = session.scalar(select(AnnotatorRow).where(AnnotatorRow.outside == name).with_for_update())
    if row is None:
        salt, code = draw()
        row = AnnotatorRow(salt=salt, code=code, state="active", outside=name)
        session.add(row)
        session.flush()
    return row


def _annotator_of(row: AnnotatorRow) -> _Annotator:
    """Take what others may know of a row."""
    return _Annotator(row.id, row.state, row.consented is not None, row.outside)


def look_up(store: Store, annotator: int) -> _Annotator | None:
    """Say how somebody stands; nothing if there is no such person."""
    with store.reading() as session:
        row = session.get(AnnotatorRow, annotator)
        return None if row is None else _annotator_of(row)


def code_mark(store: Store, annotator: int) -> str:
    """Give what changes with somebody's code."""
    with store.reading() as session:
        return session.scalar(select(AnnotatorRow.code).where(AnnotatorRow.id == annotator)) or ""


def session_mark(store: Store, annotator: int) -> str:
    """Give what changes with somebody's code, and when they sign out, so that sessions end with either."""
    with store.reading() as session:
        row = session.get(AnnotatorRow, annotator)
        return "" if row is None else f"{row.code}.{row.sign_outs}"


def end_sessions(store: Store, annotator: int) -> None:
    """End all sessions of somebody."""
    with store.writing() as session:
        find(session, annotator).sign_outs += 1


def renew_code(store: Store, annotator: int, mark: str | None = None) -> str:
    """Give somebody another code in the place of a lost one; that one, and what began with it, opens nothing more.

    :param mark: What `code_mark` gave when this was asked for; if it has changed, it is a repetition, and is refused.
    """
    secret, salt = make_secret(), secrets.token_hex(16)
    code = hashed(secret, salt)
    with store.writing() as session:
        row = find(session, annotator)
        if mark is not None and mark != row.code:
            raise RepeatedError(RENEWED.format(annotator=annotator))
        row.salt, row.code = salt, code
    return _written(annotator, secret)


def find(session: Session, annotator: int) -> AnnotatorRow:
    """Find somebody, and let nobody else change what is theirs until the end of the transaction."""
    row = session.scalar(select(AnnotatorRow).where(AnnotatorRow.id == annotator).with_for_update())
    if row is None:
        raise StudyError(f"There is no annotator {annotator} in this study.")
    return row


def consent(store: Store, annotator: int) -> None:
    """Take note that somebody agreed; the first time counts."""
    with store.writing() as session:
        row = find(session, annotator)
        row.consented = row.consented or now()


def named(store: Store, who: str) -> _Annotator:
    """Find somebody by their number, or by the name that they have on a crowd platform."""
    with store.reading() as session:
        number = int(who) if who.isascii() and who.isdigit() and len(who) < 10 else None
        row = None if number is None else session.get(AnnotatorRow, number)
        row = row or session.scalar(select(AnnotatorRow).where(AnnotatorRow.outside == who))
        if row is None:
            raise StudyError(
                f"There is no annotator {who!r} in this study. Name one by the number, or the name in brackets, that "
                "`fresh study status` shows."
            )
        return _annotator_of(row)


def leave(store: Store, annotator: int) -> int:
    """Let somebody go. What they answered counts; what they had before them goes to others.

    :return: How many items others get.
    """
    return end(store, annotator, "left", ("open",))


def exclude(store: Store, annotator: int) -> int:
    """Set aside all that somebody answered: it does not count, and others get the items.

    :return: How many items others get.
    """
    return end(store, annotator, "excluded", ("open", "answered"))


def end(store: Store, annotator: int, state: str, given_back: tuple[str, ...]) -> int:
    """End somebody's part."""
    with store.writing() as session:
        return end_part(session, find(session, annotator), state, given_back)


def end_part(session: Session, person: AnnotatorRow, state: str, given_back: tuple[str, ...]) -> int:
    """End somebody's part within a transaction; whoever is excluded stays so."""
    if person.state != "excluded":
        person.state = state
    held = select(AssignmentRow.id).where(AssignmentRow.annotator == person.id, AssignmentRow.state.in_(given_back))
    these = session.scalars(held.order_by(AssignmentRow.item)).all()
    return sum(release(session, assignment, given_back) for assignment in these)


def release(session: Session, assignment: int, states: tuple[str, ...] = ("open",)) -> bool:
    """Give an item back, unless that was done, or an answer came, meanwhile.

    Whoever gives several back goes by their numbers: else two servers could wait for each other.
    """
    this = AssignmentRow.id == assignment
    changed = session.scalar(
        update(AssignmentRow)
        .where(this, AssignmentRow.state.in_(states))
        .values(state="released")
        .returning(AssignmentRow.item)
    )
    if changed is None:
        return False
    session.execute(update(ItemRow).where(ItemRow.id == changed).values(taken=ItemRow.taken - 1))
    return True


def release_stale(store: Store, at: int | None = None) -> int:
    """Give back what has lain for longer than the study allows, and count it. Whoever had it stays."""
    before = (now() if at is None else at) - int(store.about["hours"] * 3_600_000)
    with store.writing() as session:
        stale = select(AssignmentRow.id).where(AssignmentRow.state == "open", AssignmentRow.at < before)
        return sum(
            release(session, assignment) for assignment in session.scalars(stale.order_by(AssignmentRow.item)).all()
        )


def pause(store: Store, paused: bool = True) -> bool:
    """Stop giving out items, or go on; answers to what was given out are always saved.

    :return: Whether that changed anything.
    """
    with store.writing() as session:
        changed = update(StudyRow).where(StudyRow.paused.is_not(paused)).values(paused=paused)
        return session.scalar(changed.returning(StudyRow.id)) is not None
