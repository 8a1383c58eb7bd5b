"""A study for other tools: answers as tables, items for crowd platforms and annotation tools."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from sqlalchemy import select

from fresh.annotation.potato import quoted
from fresh.config import unknown
from fresh.study.answer import SCALES, StudyError
from fresh.study.records import COLUMNS, overview, records
from fresh.study.schema import ItemRow
from fresh.study.store import Store
from fresh.whole_file import write_text

FORM = """\
<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>
<crowd-form>
  <h2>{title}</h2>
  <p>{instructions}</p>
  <p><b>${{query}}</b></p>
  <blockquote>${{text}}</blockquote>
{questions}</crowd-form>
"""
POTATO = """\
# Potato:  potato start {settings} -p 8000
annotation_task_name: {title}
task_dir: .
output_annotation_dir: {output}
data_files: [{data}]
item_properties: {{id_key: id, text_key: text}}
user_config: {{allow_all_users: true, users: []}}
annotation_schemes:
{schemes}
"""
LABEL_STUDIO = """\
<View>
  <Header value="$query"/>
  <Text name="text" value="$text"/>
{questions}
</View>
"""
RATED = {"confidence": "How confident are you?", "readability": "How easy is the text to read and understand?"}
ENDINGS = {"mturk": ".html", "potato": ".config.yaml", "label_studio": ".config.xml"}
"""Settings that some tools want beside the items."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as a tool gets it: nothing tells its condition, its document or its label."""

    item: int
    text: str
    query: str


def items_of(store: Store) -> list[Shown]:
    """List the real items, in an order that goes through all conditions."""
    with store.reading() as session:
        rows = session.scalars(select(ItemRow).where(ItemRow.kind == "real").order_by(ItemRow.id)).all()
        return [Shown(row.id, " ".join(row.words), " ".join(row.query)) for row in rows]


def questions_of(store: Store) -> dict[str, tuple[str, dict[str, str]]]:
    """List what is asked: the question, and how each answer is read."""
    rated = {name: {str(n): step for n, step in enumerate(steps, start=1)} for name, steps in SCALES.items()}
    return {
        "label": (str(store.about["question"]), store.labels),
        **{name: (RATED[name], steps) for name, steps in rated.items()},
    }


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Write comma-separated values."""
    written = io.StringIO()
    writer = csv.DictWriter(written, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def to_csv(store: Store) -> str:
    """Write all answers as a table."""
    return table(records(store), COLUMNS)


def to_jsonl(store: Store) -> str:
    """Write all answers as JSON lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records(store))


def to_mturk(store: Store) -> str:
    """Write the items as the input of a batch of Mechanical Turk."""
    rows = [{"item": shown.item, "text": escape(shown.text), "query": escape(shown.query)} for shown in items_of(store)]
    return table(rows, ("item", "text", "query"))


def mturk_form(store: Store, _data: str) -> str:
    """Write the page that workers of Mechanical Turk see."""
    lines: list[str] = []
    for name, (question, answers) in questions_of(store).items():
        lines.append(f"  <p>{escape(question)}</p>\n")
        lines += [
            f'  <label><input type="radio" name="{name}" value={quoteattr(value)} required> {escape(shown)}</label>\n'
            for value, shown in answers.items()
        ]
    about = {"title": escape(store.about["title"]), "instructions": escape(store.about["texts"]["instructions"])}
    return FORM.format(**about, questions="".join(lines))


def to_prolific(store: Store) -> str:
    """Write the participants of Prolific with what they have done, to be approved there or not."""
    rows = [
        {"Participant id": one.outside, "answered": one.n_answered, "checks failed": one.n_failed, "state": one.state}
        for one in overview(store).people
        if one.outside is not None
    ]
    return table(rows, ("Participant id", "answered", "checks failed", "state"))


def to_potato(store: Store) -> str:
    """Write the items as the data of a task of Potato."""
    rows = [{"id": str(s.item), "text": f"{s.query}\n\n{s.text}".strip()} for s in items_of(store)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def potato_settings(store: Store, data: str) -> str:
    """Write the settings of the task."""
    stem = data.removesuffix(".jsonl")
    schemes = [
        f"  - annotation_type: radio\n    name: {name}\n    description: {quoted(question)}\n"
        f"    labels: [{', '.join(map(quoted, answers.values()))}]"
        for name, (question, answers) in questions_of(store).items()
    ]
    return POTATO.format(
        settings=stem + ENDINGS["potato"],
        title=quoted(store.about["title"]),
        output=quoted(f"{stem}-annotated"),
        data=quoted(data),
        schemes="\n".join(schemes),
    )


def to_label_studio(store: Store) -> str:
    """Write the items as tasks of Label Studio."""
    tasks = [{"data": {"item": s.item, "text": s.text, "query": s.query}} for s in items_of(store)]
    return json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def label_studio_settings(store: Store, _data: str) -> str:
    """Write the labelling configuration."""
    lines: list[str] = []
    for name, (question, answers) in questions_of(store).items():
        lines.append(f"  <Header value={quoteattr(question)}/>")
        lines.append(f'  <Choices name="{name}" toName="text" choice="single" required="true">')
        choices = ((quoteattr(shown), quoteattr(value)) for value, shown in answers.items())
        lines += [f"    <Choice value={shown} alias={value}/>" for shown, value in choices]
        lines.append("  </Choices>")
    return LABEL_STUDIO.format(questions="\n".join(lines))


def export_study(store: Store, form: str, path: Path) -> list[Path]:
    """Write a study in some form, and say which files there are now."""
    if form not in FORMS:
        raise StudyError(unknown(form, "a form that a study can be exported to", FORMS))
    made = {path: FORMS[form](store)}
    if form in SETTINGS:
        made[path.with_name(path.stem + ENDINGS[form])] = SETTINGS[form](store, path.name)
    for place, text in made.items():
        write_text(place, text)
    return list(made)


FORMS: dict[str, Callable[[Store], str]] = {
    "csv": to_csv,
    "jsonl": to_jsonl,
    "mturk": to_mturk,
    "prolific": to_prolific,
    "potato": to_potato,
    "label_studio": to_label_studio,
}
SETTINGS: dict[str, Callable[[Store, str], str]] = {
    "mturk": mturk_form,
    "potato": potato_settings,
    "label_studio": label_studio_settings,
}
