"""Export a study: answers as tables, participants for Prolific, and items as projects of other tools.

The items do not reveal their condition, document or label: they have opaque names (tickets), whose order is random.
"""

import csv
import hashlib
import hmac
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from sqlalchemy import select

from fresh._io import write_text
from fresh.config import suggest
from fresh.data.annotation import label_studio, potato
from fresh.errors import StudyError
from fresh.reporting.tables import escape_formula
from fresh.study.annotators import signing_key
from fresh.study.answers import SCALES
from fresh.study.assignment import latin_row
from fresh.study.config import OLD_PRACTICE_NOTE, PRACTICE_NOTE
from fresh.study.display import format_query
from fresh.study.overview import COLUMNS, get_overview, read_answers
from fresh.study.schema import DocumentRow, ItemRow
from fresh.study.store import Store

MTURK_PAGE = """\
<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>
<crowd-form>
  <h2>{title}</h2>
  <p>{instructions}</p>
{query}  <blockquote>${{text}}</blockquote>
{questions}</crowd-form>
"""
MTURK_QUERY = "  <p><b>${query}</b></p>\n"
# Each group of annotators gets one item of every document, so that Potato shows nobody a document twice.
POTATO_ASSIGNMENT = """\
max_annotations_per_item: {per_item}
max_annotations_per_user: {max_items}
assignment_strategy: batch
batch_assignment:
  auto_assign_annotators: true
  groups:
{groups}"""
LABEL_STUDIO_CONFIG = """\
<View>
{query}  <Text name="text" value="$text"/>
{questions}
</View>
"""
# The same words as on our own pages (item.html): answers must be comparable.
SCALE_QUESTIONS = {
    "confidence": "How confident are you?",
    "readability": "How easy are the words to read and understand?",
}
CONFIG_ENDINGS = {"mturk": ".html", "potato": potato.CONFIG_ENDING, "label_studio": label_studio.CONFIG_ENDING}
TICKET_LENGTH = 16
NAME_LENGTH = 8
# No digits, which a spreadsheet may take for a number, and no vowels, which may make a word.
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrstv")


@dataclass(frozen=True, slots=True)
class _ExportedItem:
    """An item as another tool gets it."""

    ticket: str
    text: str
    query: str

    @property
    def query_field(self) -> dict[str, str]:
        return {"query": self.query} if self.query else {}


def make_ticket(key: bytes, item: int) -> str:
    """Name an item so that only who has the key can tell its number, and so its document and condition."""
    return hmac.new(key, f"exported item {item}".encode(), "sha256").hexdigest()[:TICKET_LENGTH].translate(LETTERS)


def list_tickets(store: Store) -> dict[int, str]:
    """Return the tickets of the real items, sorted by ticket, which is a random order."""
    key = signing_key(store)
    with store.read_session() as session:
        numbers = session.scalars(select(ItemRow.id).where(ItemRow.kind == "real")).all()
    tickets = {number: make_ticket(key, number) for number in numbers}
    return dict(sorted(tickets.items(), key=lambda pair: pair[1]))


def database_name(store: Store) -> str:
    """Name the database of a study: a study made again from the same settings has another, and other annotators."""
    return hmac.new(signing_key(store), b"exported database", "sha256").hexdigest()[:NAME_LENGTH].translate(LETTERS)


def study_name(store: Store) -> str:
    """Name a study by its items: a study made again from the same settings has the same."""
    columns = (ItemRow.id, DocumentRow.name, ItemRow.condition, ItemRow.label, ItemRow.words, ItemRow.query)
    items = select(*columns).join(DocumentRow, DocumentRow.id == ItemRow.document).order_by(ItemRow.id)
    with store.read_session() as session:
        rows = session.execute(items.where(ItemRow.kind == "real")).tuples()
        contents = [list(store.conditions), *map(list, rows)]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:NAME_LENGTH].translate(LETTERS)


def _list_items(store: Store) -> list[_ExportedItem]:
    tickets, corpus = list_tickets(store), store.about["corpus"]
    with store.read_session() as session:
        rows = {row.id: row for row in session.scalars(select(ItemRow).where(ItemRow.kind == "real"))}
        items = ((ticket, rows[number]) for number, ticket in tickets.items())
        return [_ExportedItem(ticket, " ".join(row.words), format_query(row.query, corpus)) for ticket, row in items]


def list_questions(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """Return what is asked about each item: the question, and how each answer is read."""
    scales = {name: {str(n): step for n, step in enumerate(steps, start=1)} for name, steps in SCALES.items()}
    return {
        "label": (str(store.about["question"]), store.labels),
        **{name: (SCALE_QUESTIONS[name], steps) for name, steps in scales.items()},
    }


def format_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write a CSV table in which a spreadsheet finds no formulas."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: escape_formula(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows
    )
    return text.getvalue()


def _format_jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _list_answers(store: Store) -> list[dict[str, Any]]:
    """List all answers, with the names by which the study recognizes its own; a time that was not measured is empty."""
    names = {"study": study_name(store), "database": database_name(store)}
    return [{**names, **answer, "milliseconds": answer["milliseconds"] or None} for answer in read_answers(store)]


def escape_mturk(text: str) -> str:
    """Escape text for Mechanical Turk, which refuses characters of four bytes, and where ${ begins a variable."""
    html = escape(text).replace("${", "&#36;{")
    return "".join(f"&#{ord(letter)};" if ord(letter) > 0xFFFF else letter for letter in html)


def _mturk_batch(store: Store) -> str:
    rows = [
        {
            "item": item.ticket,
            **{name: escape_mturk(text) for name, text in {"text": item.text, **item.query_field}.items()},
        }
        for item in _list_items(store)
    ]
    return format_csv(rows, ("item", "text", "query") if any("query" in row for row in rows) else ("item", "text"))


def _mturk_page(store: Store, _data: str) -> str:
    lines: list[str] = []
    for name, (question, answers) in list_questions(store).items():
        lines.append(f"  <p>{escape_mturk(question)}</p>\n")
        for value, shown in answers.items():
            box = f'<input type="radio" name="{name}" value="{escape_mturk(value)}" required>'
            lines.append(f"  <label>{box} {escape_mturk(shown)}</label>\n")
    # Pages of other tools have neither practice nor attention checks.
    instructions = store.about["texts"]["instructions"].replace(PRACTICE_NOTE, "").replace(OLD_PRACTICE_NOTE, "")
    texts = {"title": escape_mturk(store.about["title"]), "instructions": escape_mturk(instructions)}
    return MTURK_PAGE.format(**texts, query=MTURK_QUERY if _has_queries(store) else "", questions="".join(lines))


def _has_queries(store: Store) -> bool:
    return any(item.query for item in _list_items(store))


def _prolific_participants(store: Store) -> str:
    """Write what the participants of Prolific have done, to approve them there or not."""
    rows = [
        {"Participant id": one.outside, "answered": one.n_answered, "checks failed": one.n_failed, "state": one.status}
        for one in get_overview(store).annotators
        if one.outside is not None
    ]
    return format_csv(rows, ("Participant id", "answered", "checks failed", "state"))


def _potato_config(store: Store, data: str) -> str:
    assignment = POTATO_ASSIGNMENT.format(
        per_item=store.design.per_item, max_items=store.design.max_items, groups="\n".join(_potato_groups(store))
    )
    schemes = [
        potato.format_choices(name, question, answers.values(), required=True)
        for name, (question, answers) in list_questions(store).items()
    ]
    return potato.format_project(data, store.about["title"], schemes, _has_queries(store), settings=assignment)


def _potato_groups(store: Store) -> Iterator[str]:
    """Divide the items among groups of annotators, with conditions as in the Latin square."""
    design = store.design
    n_people = math.ceil(design.n_documents * design.per_item / design.max_items)
    with store.read_session() as session:
        items = {item.id: item for item in session.scalars(select(ItemRow).where(ItemRow.kind == "real"))}
    shuffled = [(ticket, items[number]) for number, ticket in list_tickets(store).items()]
    for number in range(design.n_conditions):
        row = latin_row(design.n_conditions, number)
        own = [t for t, item in shuffled if item.condition == row[(item.document or 0) % design.n_conditions]]
        listed = ", ".join(map(potato.quote, own))
        yield f"    - {{name: group {number + 1}, max_annotators: {n_people}, instances: [{listed}]}}"


def _label_studio_tasks(store: Store) -> str:
    tasks = [{"data": {"item": item.ticket, "text": item.text, **item.query_field}} for item in _list_items(store)]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def _label_studio_config(store: Store, _data: str) -> str:
    lines: list[str] = []
    for name, (question, answers) in list_questions(store).items():
        lines.append(f"  <Header value={quoteattr(question)}/>")
        lines.append(f'  <Choices name="{name}" toName="text" choice="single" required="true">')
        choices = ((quoteattr(shown), quoteattr(value)) for value, shown in answers.items())
        lines += [f"    <Choice value={shown} alias={value}/>" for shown, value in choices]
        lines.append("  </Choices>")
    query = label_studio.QUERY if _has_queries(store) else ""
    return LABEL_STUDIO_CONFIG.format(query=query, questions="\n".join(lines))


FORMATS: dict[str, Callable[[Store], str]] = {
    "csv": lambda store: format_csv(_list_answers(store), ("study", "database", *COLUMNS)),
    "jsonl": lambda store: _format_jsonl(_list_answers(store)),
    "mturk": _mturk_batch,
    "prolific": _prolific_participants,
    "potato": lambda store: _format_jsonl(
        {"id": i.ticket, "text": i.text, **i.query_field} for i in _list_items(store)
    ),
    "label_studio": _label_studio_tasks,
}
CONFIG_FORMATS: dict[str, Callable[[Store, str], str]] = {
    "mturk": _mturk_page,
    "potato": _potato_config,
    "label_studio": _label_studio_config,
}
"""The configuration that some tools need next to the items, given the name of the file of items."""


def export_study(store: Store, format: str, path: Path) -> list[Path]:
    """Export a study, and return the files."""
    paths = export_paths(format, path)
    texts = [FORMATS[format](store), *([CONFIG_FORMATS[format](store, path.name)] if format in CONFIG_FORMATS else [])]
    for place, text in zip(paths, texts, strict=True):
        write_text(place, text)
    return paths


def export_paths(format: str, path: Path) -> list[Path]:
    """List the files that an export writes: the given one, and for some tools a configuration next to it."""
    if format not in FORMATS:
        raise StudyError(suggest(format, "an export format", FORMATS))
    if format not in CONFIG_FORMATS:
        return [path]
    config = path.with_name(path.stem + CONFIG_ENDINGS[format])
    if config == path:
        raise StudyError(f"{path} is the name of the configuration for {format}. Give the file another ending.")
    return [path, config]
