"""Prodigy: the JSON lines of `prodigy db-out`.

The task format of its documentation (Annotation interfaces): text, tokens, spans (start, end, token_start and, the last
token, token_end), answer; a class as label, as accept among options, or as cats. Its places are Python's: code points.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fresh.data.annotation.aggregate import (
    Answer,
    Unanswered,
    check_texts,
    guarded,
    joined,
    one_of,
    place_of,
    refuse_bad,
    wants,
)
from fresh.data.config import DataConfig
from fresh.data.readers import Row

ANSWERS = {"accept": "accepted", "reject": "rejected", "ignore": "ignored"}
SIGNS = ("_input_hash", "_task_hash", "_view_id", "spans", "tokens", "options", "accept")
OWN = ("spans", "tokens", "options", "accept", "cats", "meta", "answer")


def looks_like(values: Mapping[str, Any]) -> bool:
    """Recognise a line of Prodigy's."""
    return "text" in values and values.get("answer") in ANSWERS and any(sign in values for sign in SIGNS)


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Turn lines of Prodigy's into rows of a table; what several lines say about one text is one row."""
    texts: dict[object, list[Row]] = {}
    for row in rows:
        texts.setdefault(row.values.get("_input_hash", f"row {row.number}"), []).append(row)
    for lines in texts.values():
        yield guarded(lines[0], "Prodigy", partial(_read_lines, lines, config))


def _read_lines(lines: Sequence[Row], config: DataConfig) -> Row:
    """Turn what was said about one text into a row."""
    accepted = [row for row in lines if row.values.get("answer") == "accept"]
    fields: dict[str, Any] = {}
    for row in accepted or lines[:1]:
        fields |= dict(row.values["meta"]) if isinstance(row.values.get("meta"), Mapping) else {}
        fields |= {name: value for name, value in row.values.items() if name not in OWN and name != "label"}
    if not accepted:
        verb = ANSWERS.get(str(lines[0].values.get("answer")), "not answered")
        fields[config.label] = Unanswered(f"it was {verb}.")
    answers = [Answer(_spans_of(row, config), _choices_of(row, config, fields)) for row in accepted]
    return joined((accepted or lines)[0], fields, answers, config)


def _choices_of(row: Row, config: DataConfig, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the class of a text: chosen among options, shown and accepted, or one of cats."""
    if config.label in fields:
        return {}
    values = row.values
    if isinstance(values.get("accept"), list):
        chosen = tuple(values["accept"])
    elif isinstance(values.get("cats"), Mapping):
        chosen = tuple(name for name, score in values["cats"].items() if score > 0.5)
    elif values.get("label") is not None:
        chosen = (values["label"],)
    else:
        return {}
    return {config.label: one_of(chosen)}


def _spans_of(row: Row, config: DataConfig) -> tuple[tuple[int, int], ...] | None:
    """Read the spans of a line, and see to it that they agree with their tokens and texts."""
    if not isinstance(row.values.get("spans"), list):
        return None
    given = [span for span in row.values["spans"] if wants(config, str(span.get("label")))]
    spans = [place_of(row, span) for span in given]
    refuse_bad(row.place, (problem for span in given for problem in _token_problems(row, span)))
    text = row.values.get(config.text)
    if isinstance(text, str):
        check_texts(row, text, spans, [span.get("text") for span in given])
    return tuple(spans)


def _token_problems(row: Row, span: Mapping[str, Any]) -> Iterator[str]:
    """Say where a span and its tokens do not agree."""
    tokens, first, last = row.values.get("tokens"), span.get("token_start"), span.get("token_end")
    if not isinstance(tokens, list) or type(first) is not int or type(last) is not int:
        return
    start, end = span["start"], span["end"]
    if not 0 <= first <= last < len(tokens):
        yield f"the tokens {first} to {last} of the span ({start}, {end}) are not among {len(tokens)} tokens."
    elif (tokens[first].get("start"), tokens[last].get("end")) != (start, end):
        yield f"the span ({start}, {end}) is not where its tokens {first} to {last} are."
