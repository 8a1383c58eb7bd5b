"""Potato: JSON lines with the model's answer and spans already filled in, and the settings of the task.

The formats of Potato 2: a data file with id and text, pre-annotation in the field predictions, by the name of the
annotation scheme; its places are code points. The settings file must lie in the folder of the task, beside the data.
"""

import json
from collections.abc import Sequence

from fresh.document import Explanation

ENDING = ".jsonl"
SETTINGS_ENDING = ".config.yaml"
MARK = "RATIONALE"

SETTINGS = """\
# Potato:  potato start {settings} -p 8000
annotation_task_name: Rationales
task_dir: .
output_annotation_dir: {output}
data_files: [{data}]
item_properties: {{id_key: id, text_key: text}}
user_config: {{allow_all_users: true, users: []}}
pre_annotation: {{enabled: true, field: predictions, allow_modification: true, show_confidence: true}}
annotation_schemes:
  - annotation_type: radio
    name: label
    description: Which class is it?
    labels: [{labels}]
  - annotation_type: span
    name: rationale
    description: Mark the words that show it.
    labels: [{mark}]
instance_display:
  fields:
    - {{key: text, type: text, span_target: true, display_options: {{preserve_whitespace: true}}}}
"""
QUERY_FIELD = "    - {key: query, type: text}\n"
TEXT_FIELD = "    - {key: text,"


def write(explanation: Explanation) -> str:
    """Write an explanation as a line with the model's answer and spans."""
    document, prediction = explanation.document, explanation.prediction
    record = {
        "id": document.id,
        "text": document.text,
        "predictions": {
            "label": prediction.label,
            "rationale": [{"start": start, "end": end, "label": MARK} for start, end in explanation.spans],
            "confidence": prediction.probability,
        },
    }
    if document.query:
        record["query"] = " ".join(document.query)
    return json.dumps(record, ensure_ascii=False)


def settings(data: str, labels: Sequence[str], asks: bool) -> str:
    """Write the settings of a task.

    :param data: Name of the data file, beside which the settings lie.
    :param asks: The texts have queries, which are shown above them.
    """
    stem = data.removesuffix(ENDING)
    text = SETTINGS.format(
        settings=stem + SETTINGS_ENDING,
        output=quoted(f"{stem}-annotated"),
        data=quoted(data),
        labels=", ".join(map(quoted, labels)),
        mark=MARK,
    )
    return text.replace(TEXT_FIELD, QUERY_FIELD + TEXT_FIELD) if asks else text


def quoted(text: str) -> str:
    """Write text for YAML, which reads JSON's strings."""
    return json.dumps(text, ensure_ascii=False)
