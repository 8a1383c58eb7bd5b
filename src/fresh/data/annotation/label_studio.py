"""Label Studio: tasks with the model's answer and spans as predictions, and people's annotations back.

The formats of Label Studio 1.x: tasks as JSON (data, predictions, annotations) and JSON_MIN, one flat object for each
annotation. Its places are code points; versions of before 2022 wrote UTF-16 code units, which is found out from the
text that stands beside each span.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from xml.sax.saxutils import quoteattr

from fresh.data.annotation.aggregate import Answer, Unanswered, check_texts, guarded, joined, one_of, same, wants
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.offsets import from_utf16
from fresh.text import Spans

ENDING = ".json"
SETTINGS_ENDING = ".config.xml"
MARK = "RATIONALE"
SETTINGS = """\
<View>
{query}  <Labels name="rationale" toName="text">
    <Label value="{mark}" background="#ffc069"/>
  </Labels>
  <Text name="text" value="$text" granularity="word"/>
  <Choices name="label" toName="text" choice="single" showInLine="true">
{choices}
  </Choices>
</View>
"""


def looks_like(values: Mapping[str, Any]) -> bool:
    """Recognise a task, or a flat annotation of JSON_MIN."""
    if isinstance(values.get("data"), Mapping):
        return any(isinstance(values.get(name), list) for name in ("annotations", "completions", "predictions"))
    return "annotation_id" in values and "lead_time" in values


def read(rows: Iterable[Row], config: DataConfig) -> Iterator[Row]:
    """Turn tasks, or all flat annotations of a task, into rows of a table."""
    for _, group in itertools.groupby(rows, _task_of):
        row, *more = group
        make = partial(_read_task, row, config) if _is_task(row) else partial(_read_flat, [row, *more], config)
        yield guarded(row, "Label Studio", make)


def _task_of(row: Row) -> tuple[str, Any]:
    """Name the task that a row belongs to; those of JSON_MIN stand one after the other."""
    flat = not row.error and not _is_task(row) and row.values.get("id") is not None
    return ("task", row.values["id"]) if flat else ("row", row.number)


def _is_task(row: Row) -> bool:
    """Tell a task from a flat annotation."""
    return isinstance(row.values.get("data"), Mapping)


def _read_task(row: Row, config: DataConfig) -> Row:
    """Read a task with all its annotations; if some are the ground truth, no others count."""
    fields = dict(row.values["data"])
    if config.id and config.id not in fields:
        fields[config.id] = row.values.get("id")
    given = row.values.get("annotations") or row.values.get("completions") or []
    done = [item for item in given if not item.get("was_cancelled") and not item.get("skipped")]
    done = [item for item in done if item.get("ground_truth")] or done
    if not done and fields.get(config.label) is None:
        fields[config.label] = Unanswered("it was skipped." if given else "nobody has annotated it.")
    answers = [_answer_of(row, item.get("result") or (), fields, config) for item in done]
    questions = {name for answer in answers for name in answer.choices}
    if questions and config.label == DataConfig().label and config.label not in {*questions, *fields}:
        answers = [_renamed(row, answer, questions, config) for answer in answers]
    return joined(row, fields, answers, config)


def _renamed(row: Row, answer: Answer, questions: set[str], config: DataConfig) -> Answer:
    """Let the only question be the label."""
    question, *others = sorted(questions)
    if others:
        problem = f"it has the choices {', '.join(sorted(questions))}."
        raise RowError(row.place, problem, "Name the one that is the label with `label`.")
    return Answer(answer.spans, {config.label: answer.choices.get(question)})


def _answer_of(row: Row, result: Iterable[Mapping[str, Any]], fields: Mapping[str, Any], config: DataConfig) -> Answer:
    """Read one annotation; what is neither a class of the text nor a span is passed over."""
    regions: list[Mapping[str, Any]] = []
    choices: dict[str, Any] = {}
    for item in result:
        kind, name, value = str(item.get("type")), str(item.get("from_name")), item.get("value") or {}
        if kind == "choices" and "start" not in value:
            choices[name] = _single(value.get("choices"))
        elif kind.endswith("labels") and wants(config, name, *(value.get(kind) or ())):
            regions.append(value)
    return Answer(_spans_of(row, regions, fields.get(config.text)), choices)


def _read_flat(rows: Sequence[Row], config: DataConfig) -> Row:
    """Read all flat annotations of one task."""
    answers = []
    for row in rows:
        found = [(name, region) for name, regions in row.values.items() if _marks(regions) for region in regions]
        regions = [region for name, region in found if wants(config, name, *region["labels"])]
        chosen = row.values.get(config.label)
        choices = {} if _marks(chosen) or config.label not in row.values else {config.label: _single(chosen)}
        answers.append(Answer(_spans_of(row, regions, row.values.get(config.text)), choices))
    fields = {name: value for name, value in rows[0].values.items() if not _marks(value)}
    return joined(rows[0], fields, answers, config)


def _marks(value: Any) -> bool:
    """Tell whether a flat value is a list of spans."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _single(chosen: Any) -> Any:
    """Take the class out of its list, which may stand in an object."""
    listed = chosen.get("choices") if isinstance(chosen, Mapping) else chosen
    return one_of(listed) if isinstance(listed, list) else listed


def _spans_of(row: Row, regions: Sequence[Mapping[str, Any]], text: object) -> Spans:
    """Read places in a text; if they fit the text beside them only as UTF-16 code units, they are such."""
    spans = [(region.get("start"), region.get("end")) for region in regions]
    numbers = tuple((start, end) for start, end in spans if type(start) is int and type(end) is int)
    if len(numbers) < len(spans):
        problem = "its spans are places in HTML or in paragraphs, not in a text."
        raise RowError(row.place, problem, "Use the tag Text in the labelling configuration.")
    if not isinstance(text, str):
        return ()  # the missing text is told where texts are read
    given = [region.get("text") for region in regions]
    older = tuple(span for span in from_utf16(text, numbers) if span is not None)
    if not _fit(text, numbers, given) and len(older) == len(numbers) and _fit(text, older, given):
        return older
    check_texts(row, text, numbers, given)
    return numbers


def _fit(text: str, spans: Spans, given: Sequence[str | None]) -> bool:
    """Tell whether all spans hold the text beside them."""
    return all(same(text, start, end, words) for (start, end), words in zip(spans, given, strict=True))


def write(explanation: Explanation) -> str:
    """Write an explanation as a task with a prediction: the spans, the class and how probable it is."""
    document, prediction = explanation.document, explanation.prediction
    about = {"to_name": "text", "origin": "prediction"}
    regions = [
        {"start": start, "end": end, "text": document.text[start:end], "labels": [MARK]}
        for start, end in explanation.spans
    ]
    result: list[dict[str, Any]] = [
        {"id": f"span-{number}", "from_name": "rationale", "type": "labels", "value": region, **about}
        for number, region in enumerate(regions, start=1)
    ]
    value = {"choices": [prediction.label]}
    result.append({"id": "class", "from_name": "label", "type": "choices", "value": value, **about})
    data = {"id": document.id, "text": document.text}
    if document.query:
        data["query"] = " ".join(document.query)
    model = {"model_version": "fresh", "score": prediction.probability, "result": result}
    return json.dumps({"data": data, "predictions": [model]}, ensure_ascii=False)


def settings(_data: str, labels: Sequence[str], asks: bool) -> str:
    """Write the labelling configuration.

    :param asks: The texts have queries, which are shown above them.
    """
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    return SETTINGS.format(query='  <Header value="$query"/>\n' if asks else "", mark=MARK, choices=choices)
