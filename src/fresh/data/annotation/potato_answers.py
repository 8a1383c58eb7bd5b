"""Potato: people's annotations, one line for each annotator and text.

The annotated_instances.jsonl of Potato 1 (id, displayed_text, label_annotations, span_annotations), and the
annotations.jsonl of Potato 2's export (instance_id, user_id, labels, spans), which holds no texts: each line needs its
text beside. Places are code points; Potato 1 counts them without the white space before the text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import Answer, check_texts, guarded, joined, one_of, place_of, same, wants
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.errors import RowError

FIRST = ("label_annotations", "span_annotations")
"""What Potato 1 calls the classes and the spans of a line."""
SECOND = ("labels", "spans")
"""The same in Potato 2."""
WRITTEN = "text_box"
"""Stands in the place of a class where the answer was written, not chosen."""
UNCHOSEN = (None, False, "", "false")


def looks_like(values: Mapping[str, Any]) -> bool:
    """Recognise a line of either version."""
    first = "id" in values and all(name in values for name in FIRST)
    return first or ({"instance_id", "user_id"} <= values.keys() and all(name in values for name in SECOND))


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Turn lines of Potato's into rows of a table; what several people say about one text is one row."""
    texts: dict[object, list[Row]] = {}
    for row in rows:
        name = row.values.get("id", row.values.get("instance_id"))
        texts.setdefault(("row", row.number) if row.error else ("text", str(name)), []).append(row)
    for lines in texts.values():
        yield guarded(lines[0], "Potato", partial(_read_lines, lines, config))


def _read_lines(lines: Sequence[Row], config: DataConfig) -> Row:
    """Turn what was said about one text into a row."""
    row = next((row for row in lines if config.text in row.values), lines[0])
    own = {*FIRST, *SECOND, "instance_id", "user_id", "displayed_text", "links", "behavioral_data"}
    fields = {name: value for name, value in row.values.items() if name not in own}
    if config.text not in fields:
        fields[config.text] = _text_of(row)
    if config.id and config.id not in fields:
        fields[config.id] = row.values.get("instance_id")
    answers = [_answer_of(line, fields[config.text], config) for line in lines]
    questions = {name for answer in answers for name in answer.choices}
    if config.label not in {*questions, *fields} and config.label == DataConfig().label and questions:
        answers = [_renamed(row, answer, sorted(questions), config) for answer in answers]
    return joined(row, fields, answers, config)


def _text_of(row: Row) -> str:
    """Take the text that was shown."""
    if isinstance(row.values.get("displayed_text"), str):
        return str(row.values["displayed_text"])
    problem = "it holds no text: Potato 2 leaves the texts in the file of the tasks."
    raise RowError(row.place, problem, "Add to each line the text of its instance_id, under the name text.")


def _renamed(row: Row, answer: Answer, questions: Sequence[str], config: DataConfig) -> Answer:
    """Let the only question be the label."""
    if len(questions) > 1:
        problem = f"it has the questions {', '.join(questions)}."
        raise RowError(row.place, problem, "Name the one that is the label with `label`.")
    return Answer(answer.spans, {config.label: answer.choices[questions[0]]} if answer.choices else {})


def _answer_of(row: Row, text: Any, config: DataConfig) -> Answer:
    """Read what one annotator said."""
    labels, spans = (row.values[name] for name in (FIRST if FIRST[0] in row.values else SECOND))
    choices = {question: one_of(_chosen_in(found)) for question, found in labels.items()}
    by_scheme = spans.items() if isinstance(spans, Mapping) else [("", spans)]
    marked = [span for scheme, found in by_scheme for span in found if wants(config, scheme, _name_of(span))]
    return Answer(_places_of(row, marked, text), choices)


def _chosen_in(found: Any) -> list[Any]:
    """List the classes that were chosen for one question, or what was written."""
    if not isinstance(found, Mapping):
        return [] if found in UNCHOSEN else [found]
    inner = found.get("labels", found) if isinstance(found.get("labels"), Mapping) else found
    return [value if name == WRITTEN else name for name, value in inner.items() if value not in UNCHOSEN]


def _name_of(span: Mapping[str, Any]) -> str:
    """Take the name of what a span was marked as."""
    return str(next((span[name] for name in ("annotation", "label", "name") if name in span), ""))


def _places_of(row: Row, marked: Sequence[Mapping[str, Any]], text: Any) -> tuple[tuple[int, int], ...]:
    """Read spans, in characters of the text, and see to it that they hold the words written beside them."""
    spans = [place_of(row, span) for span in marked]
    if not isinstance(text, str):
        return tuple(spans)
    given = [span.get("span", span.get("text")) for span in marked]
    lead = len(text) - len(text.lstrip())
    moved = [(start + lead, end + lead) for start, end in spans]
    if all(same(text, *span, words) for span, words in zip(moved, given, strict=True)) and any(given):
        return tuple(moved)
    check_texts(row, text, spans, given)
    return tuple(spans)
