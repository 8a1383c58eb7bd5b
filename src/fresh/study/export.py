"""A study for other tools: answers as tables, items for crowd platforms and annotation tools.

What the tools take: a batch of Mechanical Turk with a page of crowd elements; a task of Potato 2, whose groups of
people keep anybody from reading a document twice; tasks of Label Studio 1.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from sqlalchemy import select

from fresh._io import write_text
from fresh.config import suggest
from fresh.data.annotation.potato import quote
from fresh.errors import StudyError
from fresh.reporting.tables import escape_formula
from fresh.study.answer import SCALES
from fresh.study.assignment import latin_row
from fresh.study.config import ON_OUR_PAGES
from fresh.study.overview import COLUMNS, overview, records
from fresh.study.queries import spelt
from fresh.study.schema import ItemRow
from fresh.study.store import Store
from fresh.study.tickets import database_name, study_name, tickets_of

FORM = """\
<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>
<crowd-form>
  <h2>{title}</h2>
  <p>{instructions}</p>
{query}  <blockquote>${{text}}</blockquote>
{questions}</crowd-form>
"""
QUERY = "  <p><b>${query}</b></p>\n"
POTATO = """\
# Potato 2:  potato start {settings} -p 8000
annotation_task_name: {title}
task_dir: .
output_annotation_dir: {output}
data_files: [{data}]
item_properties: {{id_key: id, text_key: text}}
user_config: {{allow_all_users: true, users: []}}
max_annotations_per_item: {per_item}
max_annotations_per_user: {share}
assignment_strategy: batch
batch_assignment:
  auto_assign_annotators: true
  groups:
{groups}
annotation_schemes:
{schemes}
instance_display:
  fields:
{query}    - {{key: text, type: text}}
"""
POTATO_QUERY = "    - {key: query, type: text}\n"
LABEL_STUDIO = """\
<View>
{query}  <Text name="text" value="$text"/>
{questions}
</View>
"""
LABEL_STUDIO_QUERY = '  <Header value="$query"/>\n'
RATED = {"confidence": "How confident are you?", "readability": "How easy are the words to read and understand?"}
ENDINGS = {"mturk": ".html", "potato": ".config.yaml", "label_studio": ".config.xml"}
"""Settings that some tools want beside the items."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """An item as a tool gets it: nothing tells its condition, its document or its label."""

    ticket: str
    text: str
    query: str

    @property
    def asked(self) -> dict[str, str]:
        """The query, if there is one."""
        return {"query": self.query} if self.query else {}


def _items_of(store: Store) -> list[_Shown]:
    """List the real items, in an order that tells nothing."""
    tickets = tickets_of(store)
    with store.reading() as session:
        rows = {row.id: row for row in session.scalars(select(ItemRow).where(ItemRow.kind == "real"))}
        found = ((ticket, rows[number]) for number, ticket in tickets.items())
        corpus = store.about["corpus"]
        return [_Shown(ticket, " ".join(row.words), spelt(row.query, corpus)) for ticket, row in found]


def questions_of(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """List what is asked: the question, and how each answer is read."""
    rated = {name: {str(n): step for n, step in enumerate(steps, start=1)} for name, steps in SCALES.items()}
    return {
        "label": (str(store.about["question"]), store.labels),
        **{name: (RATED[name], steps) for name, steps in rated.items()},
    }


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write comma-separated values; what a spreadsheet would take for a formula gets an apostrophe before it."""
    written = io.StringIO()
    writer = csv.DictWriter(written, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: escape_formula(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows
    )
    return written.getvalue()


def _to_csv(store: Store) -> str:
    """Write all answers as a table."""
    return table(_own_rows(store), ("study", "database", *COLUMNS))


def _to_jsonl(store: Store) -> str:
    """Write all answers as JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in _own_rows(store))


def _own_rows(store: Store) -> list[dict[str, Any]]:
    """List all answers, each with the names of the study and its database, by which it knows its own again.

    A time of 0, which was not measured, is left empty.
    """
    names = {"study": study_name(store), "database": database_name(store)}
    return [{**names, **record, "milliseconds": record["milliseconds"] or None} for record in records(store)]


def for_mturk(text: str) -> str:
    """Write text as HTML that Mechanical Turk takes: it refuses letters of four bytes, and ${ begins a variable."""
    plain = escape(text).replace("${", "&#36;{")
    return "".join(f"&#{ord(letter)};" if ord(letter) > 0xFFFF else letter for letter in plain)


def _to_mturk(store: Store) -> str:
    """Write the items as the input of a batch of Mechanical Turk."""
    items = _items_of(store)
    rows = [{"item": shown.ticket, "text": for_mturk(shown.text), "query": for_mturk(shown.query)} for shown in items]
    names = ("item", "text", "query") if any(shown.query for shown in items) else ("item", "text")
    return table([{name: row[name] for name in names} for row in rows], names)


def _mturk_form(store: Store, _data: str) -> str:
    """Write the page that workers of Mechanical Turk see."""
    lines: list[str] = []
    for name, (question, answers) in questions_of(store).items():
        lines.append(f"  <p>{for_mturk(question)}</p>\n")
        for value, shown in answers.items():
            box = f'<input type="radio" name="{name}" value="{for_mturk(value)}" required>'
            lines.append(f"  <label>{box} {for_mturk(shown)}</label>\n")
    instructions = store.about["texts"]["instructions"].replace(ON_OUR_PAGES, "")
    about = {"title": store.about["title"], "instructions": instructions}
    texts = {name: for_mturk(text) for name, text in about.items()}
    return FORM.format(**texts, query=_if_asked(store, QUERY), questions="".join(lines))


def _if_asked(store: Store, line: str) -> str:
    """Show queries only where there are some."""
    return line if any(shown.query for shown in _items_of(store)) else ""


def _to_prolific(store: Store) -> str:
    """Write the participants of Prolific with what they have done, to be approved there or not."""
    rows = [
        {
            "Participant id": one.outside,
            "answered": one.n_answered,
            "checks failed": one.n_failed,
            "state": one.standing,
        }
        for one in overview(store).people
        if one.outside is not None
    ]
    return table(rows, ("Participant id", "answered", "checks failed", "state"))


def _to_potato(store: Store) -> str:
    """Write the items as the data of a task of Potato."""
    rows = [{"id": shown.ticket, "text": shown.text, **shown.asked} for shown in _items_of(store)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _potato_settings(store: Store, data: str) -> str:
    """Write the settings of the task."""
    stem = data.removesuffix(".jsonl")
    schemes = [
        f"  - annotation_type: radio\n    name: {name}\n    description: {quote(question)}\n"
        f"    labels: [{', '.join(map(quote, answers.values()))}]\n    label_requirement: {{required: true}}"
        for name, (question, answers) in questions_of(store).items()
    ]
    return POTATO.format(
        settings=stem + ENDINGS["potato"],
        title=quote(store.about["title"]),
        output=quote(f"{stem}-annotated"),
        data=quote(data),
        per_item=store.shape.per_item,
        share=store.shape.share,
        groups="\n".join(_potato_groups(store)),
        schemes="\n".join(schemes),
        query=_if_asked(store, POTATO_QUERY),
    )


def _potato_groups(store: Store) -> Iterator[str]:
    """Deal the items out, one of each document to each group of people, with conditions as in the Latin square."""
    shape = store.shape
    people = math.ceil(shape.n_documents * shape.per_item / shape.share)
    rows = [latin_row(shape.n_conditions, arrival) for arrival in range(shape.n_conditions)]
    with store.reading() as session:
        items = {item.id: item for item in session.scalars(select(ItemRow).where(ItemRow.kind == "real"))}
    shuffled = [(ticket, items[number]) for number, ticket in tickets_of(store).items()]
    for number, row in enumerate(rows, start=1):
        own = [t for t, item in shuffled if item.condition == row[(item.document or 0) % shape.n_conditions]]
        listed = ", ".join(map(quote, own))
        yield f"    - {{name: group {number}, max_annotators: {people}, instances: [{listed}]}}"


def _to_label_studio(store: Store) -> str:
    """Write the items as tasks of Label Studio."""
    tasks = [{"data": {"item": s.ticket, "text": s.text, **s.asked}} for s in _items_of(store)]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def _label_studio_settings(store: Store, _data: str) -> str:
    """Write the labelling configuration."""
    lines: list[str] = []
    for name, (question, answers) in questions_of(store).items():
        lines.append(f"  <Header value={quoteattr(question)}/>")
        lines.append(f'  <Choices name="{name}" toName="text" choice="single" required="true">')
        choices = ((quoteattr(shown), quoteattr(value)) for value, shown in answers.items())
        lines += [f"    <Choice value={shown} alias={value}/>" for shown, value in choices]
        lines.append("  </Choices>")
    return LABEL_STUDIO.format(query=_if_asked(store, LABEL_STUDIO_QUERY), questions="\n".join(lines))


def export_study(store: Store, form: str, path: Path) -> list[Path]:
    """Write a study in some form, and say which files there are now."""
    places = places_of(form, path)
    made = [FORMS[form](store), *([SETTINGS[form](store, path.name)] if form in SETTINGS else [])]
    for place, text in zip(places, made, strict=True):
        write_text(place, text)
    return places


def places_of(form: str, path: Path) -> list[Path]:
    """List the files that some form needs: the one that is named, and for some tools their settings beside it."""
    if form not in FORMS:
        raise StudyError(suggest(form, "a form that a study can be exported to", FORMS))
    if form not in SETTINGS:
        return [path]
    beside = path.with_name(path.stem + ENDINGS[form])
    if beside == path:
        raise StudyError(f"{path} is where the settings for {form} go. Let the name of the file end otherwise.")
    return [path, beside]


FORMS: dict[str, Callable[[Store], str]] = {
    "csv": _to_csv,
    "jsonl": _to_jsonl,
    "mturk": _to_mturk,
    "prolific": _to_prolific,
    "potato": _to_potato,
    "label_studio": _to_label_studio,
}
SETTINGS: dict[str, Callable[[Store, str], str]] = {
    "mturk": _mturk_form,
    "potato": _potato_settings,
    "label_studio": _label_studio_settings,
}
