"""Potato: tasks with the model's label and spans filled in, the project's configuration, and exported annotations.

Tasks are JSON lines for Potato 2: id, text, and predictions by the name of the annotation scheme. The configuration
must be in the same folder.

Annotations are the annotated_instances.jsonl of Potato 1 (id, displayed_text, label_annotations, span_annotations) and
the annotations.jsonl of Potato 2 (instance_id, user_id, labels, spans), which holds no texts: add the text to each
line. Spans count code points.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fresh.data.annotation.aggregate import RATIONALE_LABEL, Annotation, merge, parse_spans, single_choice
from fresh.data.config import DataConfig
from fresh.data.readers import Row
from fresh.document import Explanation
from fresh.errors import RowError
from fresh.text import Spans

ENDING = ".jsonl"
CONFIG_ENDING = ".config.yaml"
CONFIG = """\
# Potato 2:  potato start {config} -p 8000
annotation_task_name: {title}
task_dir: .
output_annotation_dir: {output}
data_files: [{data}]
item_properties: {{id_key: id, text_key: text}}
user_config: {{allow_all_users: true, users: []}}
{settings}
annotation_schemes:
{schemes}
instance_display:
  fields:
{query}    - {{key: text, type: text{text_options}}}
"""
QUERY = "    - {key: query, type: text}\n"
PRE_ANNOTATION = "pre_annotation: {enabled: true, field: predictions, allow_modification: true, show_confidence: true}"
SPAN_SCHEME = f"""\
  - annotation_type: span
    name: rationale
    description: Mark the words that show it.
    labels: [{RATIONALE_LABEL}]"""
SPAN_TARGET = ", span_target: true, display_options: {preserve_whitespace: true}"

FIRST_VERSION = ("label_annotations", "span_annotations")
SECOND_VERSION = ("labels", "spans")
# Replaces the class where the answer was typed rather than chosen.
TEXT_BOX = "text_box"
# Values of a class that was not chosen, or no longer.
NOT_CHOSEN = (None, False, "", "false")


def matches(values: Mapping[str, Any]) -> bool:
    """Recognize an annotation of either version."""
    return {"id", *FIRST_VERSION} <= values.keys() or {"instance_id", "user_id", *SECOND_VERSION} <= values.keys()


def text_id(row: Row) -> str:
    """Name the text that an annotation is about."""
    return str(row.values.get("id", row.values.get("instance_id")))


def parse(lines: Sequence[Row], config: DataConfig) -> Row:
    """Parse all annotations of one text."""
    row = next((row for row in lines if config.text in row.values), lines[0])
    own = {*FIRST_VERSION, *SECOND_VERSION, "instance_id", "user_id", "displayed_text", "links", "behavioral_data"}
    fields = {name: value for name, value in row.values.items() if name not in own}
    if config.text not in fields:
        fields[config.text] = row.values.get("displayed_text")
        if not isinstance(fields[config.text], str):
            problem = "it holds no text: Potato 2 leaves the texts in the file of the tasks."
            raise RowError(row.place, problem, "Add to each line the text of its instance_id, under the name text.")
    if config.id and config.id not in fields:
        fields[config.id] = row.values.get("instance_id")
    return merge(row, fields, [_parse_annotation(line, fields[config.text], config) for line in lines], config)


def _parse_annotation(row: Row, text: Any, config: DataConfig) -> Annotation:
    labels, spans = (row.values[name] for name in (FIRST_VERSION if FIRST_VERSION[0] in row.values else SECOND_VERSION))
    choices = {question: single_choice(parse_choices(answer)) for question, answer in labels.items()}
    by_scheme = spans.items() if isinstance(spans, Mapping) else [("", spans)]
    marked = [(span, (scheme, _label(span))) for scheme, items in by_scheme for span in items]
    return Annotation(parse_spans(row, text, marked, config, _skip_leading_space), choices)


def _label(span: Mapping[str, Any]) -> str:
    return str(next((span[name] for name in ("annotation", "label", "name") if name in span), ""))


def _skip_leading_space(text: str, spans: Spans) -> Spans:
    # Potato 1 counts from the first character that is not white space.
    n_leading = len(text) - len(text.lstrip())
    return tuple((start + n_leading, end + n_leading) for start, end in spans)


def parse_choices(answer: Any) -> list[Any]:
    """List the classes that were chosen for one question, or the typed answer."""
    if not isinstance(answer, Mapping):
        return [] if answer in NOT_CHOSEN else [answer]
    choices = answer["labels"] if isinstance(answer.get("labels"), Mapping) else answer
    return [
        value if name == TEXT_BOX else name
        for name, value in choices.items()
        if value == name or value not in NOT_CHOSEN  # a class may be named "false"
    ]


def to_task(explanation: Explanation, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an explanation to a line with the model's label and spans."""
    prediction = explanation.prediction
    spans = [{"start": start, "end": end, "label": RATIONALE_LABEL} for start, end in explanation.spans]
    predictions = {"label": prediction.label, "rationale": spans, "confidence": prediction.probability}
    return {**fields, "predictions": predictions}


def format_config(data: str, labels: Sequence[str], has_query: bool) -> str:
    """Format the configuration of a project that corrects labels and spans."""
    schemes = (format_choices("label", "Which class is it?", labels), SPAN_SCHEME)
    return format_project(data, "Rationales", schemes, has_query, settings=PRE_ANNOTATION, text_options=SPAN_TARGET)


def format_project(
    data: str, title: str, schemes: Iterable[str], has_query: bool, *, settings: str, text_options: str = ""
) -> str:
    """Format the configuration of a project.

    :param data: Name of the data file in the same folder.
    :param schemes: The questions, as YAML.
    :param has_query: Show queries above the texts.
    :param settings: Further settings, as YAML.
    :param text_options: Further properties of the displayed text, as YAML.
    """
    stem = data.removesuffix(ENDING)
    return CONFIG.format(
        config=stem + CONFIG_ENDING,
        title=quote(title),
        output=quote(f"{stem}-annotated"),
        data=quote(data),
        settings=settings,
        schemes="\n".join(schemes),
        query=QUERY if has_query else "",
        text_options=text_options,
    )


def format_choices(name: str, question: str, choices: Iterable[str], *, required: bool = False) -> str:
    """Format a question with one answer as an annotation scheme."""
    return (
        f"  - annotation_type: radio\n    name: {name}\n    description: {quote(question)}\n"
        f"    labels: [{', '.join(map(quote, choices))}]"
    ) + ("\n    label_requirement: {required: true}" if required else "")


def quote(text: str) -> str:
    """Quote text for YAML, which reads JSON strings."""
    return json.dumps(text, ensure_ascii=False)
