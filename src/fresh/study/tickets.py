"""What items and studies are called in files for others: names that tell nothing, and that the study knows again."""

import hashlib
import hmac
import json

from sqlalchemy import select

from fresh.study.keys import signing_key
from fresh.study.schema import DocumentRow, ItemRow
from fresh.study.store import Store

LETTERS = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrstv")
"""No digits, which a spreadsheet could take for a number, and no vowels, which could make a word."""
LENGTH = 16
SHORT = 8


def _ticket_of(key: bytes, item: int) -> str:
    """Name an item so that its number, and so its document and its condition, can be told with the key only."""
    return hmac.new(key, f"exported item {item}".encode(), "sha256").hexdigest()[:LENGTH].translate(LETTERS)


def tickets_of(store: Store) -> dict[int, str]:
    """Name the real items, in the order of their names, which is as good as shuffled."""
    key = signing_key(store)
    with store.reading() as session:
        numbers = session.scalars(select(ItemRow.id).where(ItemRow.kind == "real")).all()
    made = {number: _ticket_of(key, number) for number in numbers}
    return dict(sorted(made.items(), key=lambda pair: pair[1]))


def database_name(store: Store) -> str:
    """Name the database of a study: made again from the same settings, it has another name, and other annotators."""
    return hmac.new(signing_key(store), b"exported database", "sha256").hexdigest()[:SHORT].translate(LETTERS)


def study_name(store: Store) -> str:
    """Name a study by its items: made again from the same settings, it has the same name."""
    columns = (ItemRow.id, DocumentRow.name, ItemRow.condition, ItemRow.label, ItemRow.words, ItemRow.query)
    items = select(*columns).join(DocumentRow, DocumentRow.id == ItemRow.document).order_by(ItemRow.id)
    with store.reading() as session:
        told = [list(store.conditions), *map(list, session.execute(items.where(ItemRow.kind == "real")).tuples())]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:SHORT].translate(LETTERS)
