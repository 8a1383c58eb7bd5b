"""Export a study: answers as tables, participants for Prolific, and items as projects of other tools.

The items do not reveal their condition, document or label: they have opaque names (tickets), whose order is random.
"""

import csv
import hashlib
import hmac
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from fresh.study.answers import SCALE_QUESTIONS, SCALES
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
ANSWER_COLUMNS = ("study", "database", *COLUMNS)
TICKET_LENGTH = 16
NAME_LENGTH = 8
# No digits, which a spreadsheet may take for a number, and no vowels, which may make a word.
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrstv")


def make_ticket(key: bytes, item: int) -> str:
    """Name an item so that its number, and thus its document and condition, cannot be found without the key."""
    return hmac.new(key, f"exported item {item}".encode(), "sha256").hexdigest()[:TICKET_LENGTH].translate(LETTERS)


def list_tickets(store: Store) -> dict[int, str]:
    """Return the tickets of the real items, sorted by ticket, which is a random order."""
    key, numbers = signing_key(store), store.read(select(ItemRow.id).where(ItemRow.kind == "real"))
    tickets = {number: make_ticket(key, number) for (number,) in numbers}
    return dict(sorted(tickets.items(), key=lambda pair: pair[1]))


def database_name(store: Store) -> str:
    """Name the database of a study: the same settings give another database, with other annotators."""
    return hmac.new(signing_key(store), b"exported database", "sha256").hexdigest()[:NAME_LENGTH].translate(LETTERS)


def study_name(store: Store) -> str:
    """Name a study by its items: the same settings give the same name."""
    columns = (ItemRow.id, DocumentRow.name, ItemRow.condition, ItemRow.label, ItemRow.words, ItemRow.query)
    items = select(*columns).join(DocumentRow, DocumentRow.id == ItemRow.document).order_by(ItemRow.id)
    contents = [list(store.conditions), *map(list, store.read(items.where(ItemRow.kind == "real")))]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:NAME_LENGTH].translate(LETTERS)


def _list_items(store: Store, name: str = "item") -> list[dict[str, str]]:
    rows = store.read(select(ItemRow.id, ItemRow.words, ItemRow.query).where(ItemRow.kind == "real"))
    contents = {number: (" ".join(words), format_query(query, store.about["corpus"])) for number, words, query in rows}
    items: list[dict[str, str]] = []
    for number, ticket in list_tickets(store).items():
        text, query = contents[number]
        items.append({name: ticket, "text": text} | ({"query": query} if query else {}))
    return items


def list_questions(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the questions about each item: their text, and how annotators see each answer."""
    questions = {"label": (str(store.about["question"]), store.labels)}
    for name, steps in SCALES.items():
        questions[name] = (SCALE_QUESTIONS[name], {str(n): step for n, step in enumerate(steps, start=1)})
    return questions


def format_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write a CSV table in which spreadsheets find no formulas."""
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
    names = {"study": study_name(store), "database": database_name(store)}
    return [{**names, **answer, "milliseconds": answer["milliseconds"] or None} for answer in read_answers(store)]


def escape_mturk(text: str) -> str:
    """Escape text for Mechanical Turk, which refuses characters of four bytes, and in which ${ starts a variable."""
    html = escape(text).replace("${", "&#36;{")
    return "".join(f"&#{ord(letter)};" if ord(letter) > 0xFFFF else letter for letter in html)


def _mturk_batch(store: Store) -> str:
    rows = [{name: escape_mturk(text) for name, text in item.items()} for item in _list_items(store)]
    return format_csv(rows, ("item", "text", "query") if _has_queries(store) else ("item", "text"))


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
    return any("query" in item for item in _list_items(store))


def _prolific_participants(store: Store) -> str:
    rows = [
        {"Participant id": one.outside, "answered": one.n_answered, "checks failed": one.n_failed, "state": one.status}
        for one in get_overview(store).annotators
        if one.outside is not None
    ]
    return format_csv(rows, ("Participant id", "answered", "checks failed", "state"))


def _potato_config(store: Store, data: str) -> str:
    design = store.design
    # Groups of annotators share the items with the conditions as in the Latin square.
    n_people = math.ceil(design.n_documents * design.per_item / design.max_items)
    rows = store.read(select(ItemRow.id, ItemRow.document, ItemRow.condition).where(ItemRow.kind == "real"))
    items = {item: (document, condition) for item, document, condition in rows}
    tickets, groups = list_tickets(store), list[str]()
    for number in range(design.n_conditions):
        row = latin_row(design.n_conditions, number)
        own = {(document, row[document % design.n_conditions]) for document in range(design.n_documents)}
        listed = ", ".join(potato.quote(ticket) for item, ticket in tickets.items() if items[item] in own)
        groups.append(f"    - {{name: group {number + 1}, max_annotators: {n_people}, instances: [{listed}]}}")
    assignment = POTATO_ASSIGNMENT.format(
        per_item=design.per_item, max_items=design.max_items, groups="\n".join(groups)
    )
    schemes = [
        potato.format_choices(name, question, answers.values(), required=True)
        for name, (question, answers) in list_questions(store).items()
    ]
    return potato.format_project(data, store.about["title"], schemes, _has_queries(store), settings=assignment)


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


@dataclass(frozen=True, slots=True)
class Format:
    """A format of exports."""

    title: str
    file: str  # its name when it is downloaded
    write: Callable[[Store], str]
    write_config: Callable[[Store, str], str] | None = None  # what a tool needs besides the file of items that is named
    config_ending: str = ""


FORMATS = {
    "csv": Format("CSV", "answers.csv", lambda store: format_csv(_list_answers(store), ANSWER_COLUMNS)),
    "jsonl": Format("JSON lines", "answers.jsonl", lambda store: _format_jsonl(_list_answers(store))),
    "mturk": Format("Mechanical Turk", "mturk-batch.csv", _mturk_batch, _mturk_page, ".html"),
    "prolific": Format("Prolific", "prolific-participants.csv", _prolific_participants),
    "potato": Format(
        "Potato",
        "potato-items.jsonl",
        lambda store: _format_jsonl(_list_items(store, "id")),
        _potato_config,
        potato.CONFIG_ENDING,
    ),
    "label_studio": Format(
        "Label Studio",
        "label-studio-tasks.json",
        lambda store: json.dumps([{"data": item} for item in _list_items(store)], ensure_ascii=False, indent=1) + "\n",
        _label_studio_config,
        label_studio.CONFIG_ENDING,
    ),
}


def export_study(store: Store, format: str, path: Path) -> list[Path]:
    """Export a study, and return the files."""
    paths, chosen = export_paths(format, path), FORMATS[format]
    texts = [chosen.write(store)]
    if chosen.write_config is not None:
        texts.append(chosen.write_config(store, path.name))
    for place, text in zip(paths, texts, strict=True):
        write_text(place, text)
    return paths


def export_paths(format: str, path: Path) -> list[Path]:
    """List the files that an export writes: the given one, and for some tools a configuration next to it."""
    if format not in FORMATS:
        raise StudyError(suggest(format, "an export format", FORMATS))
    config = path.with_name(path.stem + FORMATS[format].config_ending)
    if FORMATS[format].write_config is None:
        return [path]
    if config == path:
        raise StudyError(f"{path} is the name of the configuration for {format}. Give the file another ending.")
    return [path, config]
