"""Secrets of a study that is served: what sessions are signed with, and what opens the admin page."""

import hmac
import secrets

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from fresh.errors import StudyError
from fresh.study.annotators import NOBODY, hashed, make_secret
from fresh.study.schema import StudyRow
from fresh.study.store import Store

SHORTEST = 12
"""Characters that a secret of one's own has at least."""


def row_of(session: Session) -> StudyRow:
    """Find the study, and let nobody else change it until the end of the transaction."""
    return session.scalars(select(StudyRow).with_for_update()).one()


def signing_key(store: Store) -> bytes:
    """Give what sessions are signed with: made once, and the same for all servers of a study."""
    with store.writing() as session:
        row = row_of(session)
        row.key = row.key or secrets.token_hex(32)
        return bytes.fromhex(row.key)


def make_admin_secret(store: Store, anew: bool = False) -> str | None:
    """Draw the secret of the admin page, which is kept nowhere else.

    :param anew: In the place of one that there is; whoever came in with that must sign in again.
    :return: Nothing if there is one already.
    """
    drawn = make_secret()
    with store.writing() as session:
        row = row_of(session)
        if row.admin_code is not None and not anew:
            return None
        _keep(row, drawn)
    return "-".join(drawn[place : place + 4] for place in range(0, len(drawn), 4))


def set_admin_secret(store: Store, secret: str) -> None:
    """Take a secret of one's own; the same one again changes nothing."""
    if len(_plain(secret)) < SHORTEST:
        raise StudyError(
            f"The secret of the admin page must have at least {SHORTEST} letters, got {len(_plain(secret))}. "
            "Choose a longer one."
        )
    if is_admin(store, secret):
        return
    with store.writing() as session:
        _keep(row_of(session), _plain(secret))


def _keep(row: StudyRow, secret: str) -> None:
    """Keep a secret so that nobody can read it back."""
    row.admin_salt = secrets.token_hex(16)
    row.admin_code = hashed(secret, row.admin_salt)


def _plain(secret: str) -> str:
    """Take a secret as it is meant, however it is spaced."""
    return "".join(secret.split()).replace("-", "")


def is_admin(store: Store, secret: str) -> bool:
    """Say whether a secret opens the admin page. A wrong one takes as long as a right one."""
    with store.reading() as session:
        salt, code = session.execute(select(StudyRow.admin_salt, StudyRow.admin_code)).one()
    return hmac.compare_digest(hashed(_plain(secret), salt or NOBODY), code or "")


def admin_mark(store: Store) -> str:
    """Give what changes with the secret, and when somebody signs out, so that sessions end with either."""
    with store.reading() as session:
        code, sign_outs = session.execute(select(StudyRow.admin_code, StudyRow.admin_sign_outs)).one()
        return f"{code}.{sign_outs}"


def end_admin_sessions(store: Store) -> None:
    """End all sessions of the admin page."""
    with store.writing() as session:
        session.execute(update(StudyRow).values(admin_sign_outs=StudyRow.admin_sign_outs + 1))
