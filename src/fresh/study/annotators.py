"""Annotators and the admin: sign-in codes, of which only hashes are stored, and how annotators join and leave."""

import hashlib
import hmac
import secrets
import unicodedata

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from fresh.errors import RepeatedRequestError, StudyError
from fresh.study.schema import AnnotatorRow, AnswerRow, AssignmentRow, ItemRow, StudyRow
from fresh.study.store import Store, now_ms

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that are easily confused
SECRET_LENGTH = 12  # 31^12 secrets, about 8e17
MIN_ADMIN_SECRET = 12
NO_SALT, NO_CODE = "00" * 16, ""
CODES_MADE = (
    "The study has more annotators than when you loaded the page, so these codes may already have been made. Each code "
    "is shown once: if nobody wrote them down, make a new code for each annotator who has not started."
)
CODE_RENEWED = (
    "Annotator {annotator} already has a new code, which was shown once. If nobody has it, go back and make another."
)


def _make_secret() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LENGTH))


def _hash_secret(secret: str, salt: str) -> str:
    # 16 MB a hash, so that a stolen database is slow to search; `MAX_HASHES` in web/site.py bounds the memory.
    return hashlib.scrypt(secret.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1, dklen=32).hex()


def _salt_and_hash(secret: str) -> tuple[str, str]:
    salt = secrets.token_hex(16)
    return salt, _hash_secret(secret, salt)


def _group_letters(secret: str) -> str:
    return "-".join(secret[place : place + 4] for place in range(0, len(secret), 4))


def parse_number(text: str) -> int | None:
    """Parse the number of an annotator; None if it is not a number that fits into a 32-bit column."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def add_annotators(store: Store, n: int, after: int | None = None) -> list[str]:
    """Add annotators.

    :param after: The highest number when the request was made; if it has changed, the request may be a repetition and
        is refused.
    :return: Their sign-in codes, which are stored nowhere else.
    """
    if n < 1:
        raise StudyError(f"The number of annotators must be at least 1, got {n}.")
    # Hash before the transaction: hashing is slow, and blocks all other writers.
    drawn = [_make_secret() for _ in range(n)]
    rows = [AnnotatorRow(salt=salt, code=code, state="active") for salt, code in map(_salt_and_hash, drawn)]
    with store.write_session() as session:
        lock_study(session)
        if after is not None and after != (session.scalar(select(func.max(AnnotatorRow.id))) or 0):
            raise RepeatedRequestError(CODES_MADE)
        session.add_all(rows)
        session.flush()
        return [f"{row.id}-{_group_letters(secret)}" for row, secret in zip(rows, drawn, strict=True)]


def sign_in(store: Store, code: str) -> AnnotatorRow | None:
    """Find the annotator who has a code, whatever its case, spaces and dashes; None if it is wrong."""
    letters = unicodedata.normalize("NFKC", code).lower()
    plain = "".join(letter for letter in letters if letter.isalnum())
    row = get_annotator(store, parse_number(plain[:-SECRET_LENGTH]))
    # Hash in any case: a wrong number must take as long as a wrong secret.
    code_hash = _hash_secret(plain[-SECRET_LENGTH:], NO_SALT if row is None else row.salt)
    return row if row is not None and hmac.compare_digest(code_hash, row.code) else None


def get_or_add_annotator(session: Session, name: str) -> AnnotatorRow:
    """Find an annotator by their name on a crowd platform, or add them without a code."""
    row = session.scalar(select(AnnotatorRow).where(AnnotatorRow.outside == name).with_for_update())
    if row is None:
        # No hash is empty, so that no code signs them in until they get one.
        row = AnnotatorRow(salt=NO_SALT, code=NO_CODE, state="active", outside=name)
        session.add(row)
        session.flush()
    return row


def get_annotator(store: Store, annotator: int | None) -> AnnotatorRow | None:
    """Return an annotator by their number; None if there is none."""
    with store.read_session() as session:
        return None if annotator is None else session.get(AnnotatorRow, annotator)


def find_annotator(store: Store, name: str) -> AnnotatorRow:
    """Find an annotator by their number, or by their name on a crowd platform."""
    with store.read_session() as session:
        named = session.scalar(select(AnnotatorRow).where(AnnotatorRow.outside == name))
    row = get_annotator(store, parse_number(name)) or named
    if row is None:
        raise StudyError(
            f"There is no annotator {name!r} in this study. Use the number, or the name in parentheses, that "
            "`fresh study status` shows."
        )
    return row


def lock_annotator(session: Session, annotator: int) -> AnnotatorRow:
    """Return an annotator, locked until the end of the transaction."""
    row = session.scalar(select(AnnotatorRow).where(AnnotatorRow.id == annotator).with_for_update())
    if row is None:
        raise StudyError(f"There is no annotator {annotator} in this study.")
    return row


def lock_study(session: Session) -> StudyRow:
    """Return the study, locked until the end of the transaction."""
    return session.scalars(select(StudyRow).with_for_update()).one()


def session_version(store: Store, annotator: int | None) -> str:
    """Return a string that changes when an annotator gets a new code or signs out; sessions end with it.

    :param annotator: None for the admin.
    """
    columns = select(StudyRow.admin_code, StudyRow.admin_sign_outs)
    if annotator is not None:
        columns = select(AnnotatorRow.code, AnnotatorRow.sign_outs).where(AnnotatorRow.id == annotator)
    return "".join(f"{code}.{sign_outs}" for code, sign_outs in store.read(columns))


def end_sessions(store: Store, annotator: int | None) -> None:
    """End all sessions of an annotator, or of the admin, on all servers."""
    with store.write_session() as session:
        if annotator is None:
            lock_study(session).admin_sign_outs += 1
        else:
            lock_annotator(session, annotator).sign_outs += 1


def renew_code(store: Store, annotator: int, replaces: str | None = None) -> str:
    """Replace the code of an annotator; the old one, and sessions that began with it, end.

    :param replaces: The stored hash when the request was made; if it has changed, the request is a repetition and is
        refused.
    """
    secret = _make_secret()
    salt, code = _salt_and_hash(secret)
    with store.write_session() as session:
        row = lock_annotator(session, annotator)
        if replaces is not None and replaces != row.code:
            raise RepeatedRequestError(CODE_RENEWED.format(annotator=annotator))
        row.salt, row.code = salt, code
    return f"{annotator}-{_group_letters(secret)}"


def record_consent(store: Store, annotator: int) -> None:
    """Record that an annotator agreed to take part; a repetition changes nothing."""
    with store.write_session() as session:
        row = lock_annotator(session, annotator)
        row.consented = row.consented or now_ms()


def leave(store: Store, annotator: int) -> int:
    """Remove an annotator who stops. Their answers count; the item that they hold goes to others.

    :return: The number of items that go to others.
    """
    with store.write_session() as session:
        return end_participation(session, lock_annotator(session, annotator), "left")


def exclude(store: Store, annotator: int) -> int:
    """Exclude an annotator: their answers do not count, and the items go to others.

    :return: The number of items that go to others.
    """
    with store.write_session() as session:
        return end_participation(session, lock_annotator(session, annotator), "excluded")


def end_participation(session: Session, annotator: AnnotatorRow, state: str) -> int:
    """Remove or exclude an annotator within a transaction; leaving does not undo an exclusion."""
    if annotator.state != "excluded":
        annotator.state = state
    states = ("open", "answered") if state == "excluded" else ("open",)
    theirs = select(AssignmentRow.id).where(AssignmentRow.annotator == annotator.id, AssignmentRow.state.in_(states))
    # In the order of items, as in `release_expired`: two servers that lock the rows in different orders could deadlock.
    ids = session.scalars(theirs.order_by(AssignmentRow.item)).all()
    return sum(release_assignment(session, assignment, states) for assignment in ids)


def readmit(store: Store, annotator: int) -> int:
    """Let an annotator who left or was excluded take part again.

    :return: The number of their answers that do not count, since others took the places.
    """
    with store.write_session() as session:
        lock_annotator(session, annotator).state = "active"
        uncounted = (
            select(AssignmentRow)
            .join(AnswerRow, AnswerRow.assignment == AssignmentRow.id)
            .where(AssignmentRow.annotator == annotator, AssignmentRow.state == "released")
        )
        n_lost = 0
        for assignment in session.scalars(uncounted.order_by(AssignmentRow.item)).all():
            if take_place(session, assignment.item):
                assignment.state = "answered"
            else:
                n_lost += 1
        return n_lost


def take_place(session: Session, item: int) -> bool:
    """Take a place at an item; False if none is left."""
    # One conditional update, not a read and a write: of two servers that ask for the last place, one gets it.
    place = update(ItemRow).where(ItemRow.id == item, ItemRow.taken < ItemRow.wanted)
    return session.scalar(place.values(taken=ItemRow.taken + 1).returning(ItemRow.id)) is not None


def release_assignment(session: Session, assignment: int, states: tuple[str, ...] = ("open",)) -> bool:
    """Release the place of an assignment; False if it is no longer in one of the states."""
    row = update(AssignmentRow).where(AssignmentRow.id == assignment, AssignmentRow.state.in_(states))
    item = session.scalar(row.values(state="released").returning(AssignmentRow.item))
    if item is None:
        return False
    session.execute(update(ItemRow).where(ItemRow.id == item).values(taken=ItemRow.taken - 1))
    return True


def release_expired(store: Store, at: int | None = None) -> int:
    """Release items that were held longer than the study allows, and count them; their annotators stay active."""
    before = (now_ms() if at is None else at) - int(store.about["hours"] * 3_600_000)
    with store.write_session() as session:
        expired = select(AssignmentRow.id).where(AssignmentRow.state == "open", AssignmentRow.at < before)
        ids = session.scalars(expired.order_by(AssignmentRow.item)).all()
        return sum(release_assignment(session, assignment) for assignment in ids)


def set_paused(store: Store, paused: bool) -> bool:
    """Pause or resume a study; answers to items that people already hold are always saved.

    :return: Whether that changed anything.
    """
    with store.write_session() as session:
        row = update(StudyRow).where(StudyRow.paused.is_not(paused)).values(paused=paused)
        return session.scalar(row.returning(StudyRow.id)) is not None


def signing_key(store: Store) -> bytes:
    """Return the key that signs sessions and item names; all servers of a study share it."""
    with store.write_session() as session:
        row = lock_study(session)
        row.key = row.key or secrets.token_hex(32)
        return bytes.fromhex(row.key)


def make_admin_secret(store: Store, replace: bool = False) -> str | None:
    """Make the secret of the admin page, of which only a hash is stored.

    :param replace: Replace an existing secret, which ends all sessions of the admin page.
    :return: None if there is a secret already.
    """
    secret = _make_secret()
    salt, code = _salt_and_hash(secret)
    with store.write_session() as session:
        row = lock_study(session)
        if row.admin_code is not None and not replace:
            return None
        row.admin_salt, row.admin_code = salt, code
    return _group_letters(secret)


def set_admin_secret(store: Store, secret: str) -> None:
    """Set the secret of the admin page; sessions end unless it stays the same."""
    plain = _strip_separators(secret)
    if len(plain) < MIN_ADMIN_SECRET:
        raise StudyError(
            f"The secret of the admin page must have at least {MIN_ADMIN_SECRET} characters, not counting spaces and "
            f"dashes, got {len(plain)}. Choose a longer one."
        )
    if is_admin(store, secret):
        return
    salt, code = _salt_and_hash(plain)
    with store.write_session() as session:
        session.execute(update(StudyRow).values(admin_salt=salt, admin_code=code))


def _strip_separators(secret: str) -> str:
    return "".join(secret.split()).replace("-", "")


def is_admin(store: Store, secret: str) -> bool:
    """Check the secret of the admin page; a wrong one takes as long as the right one."""
    [(salt, code)] = store.read(select(StudyRow.admin_salt, StudyRow.admin_code))
    return hmac.compare_digest(_hash_secret(_strip_separators(secret), salt or NO_SALT), code or "")
