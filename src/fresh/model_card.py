"""The card of a saved model."""

from collections.abc import Mapping, Sequence
from typing import Any

from fresh.config import flatten
from fresh.reporting.report import Report

TEXT = """\
# {name}

A text classifier that shows exactly the words each answer was made from. It is a pair: an extractor chooses words of a
document, and a predictor reads them{query} **and nothing else**. Given the words shown{query}, nothing else can change
the answer. Other words can change which words are shown.
{method}

Labels: {labels}.{asks}

## Use

```python
from fresh import Rationalizer

model = Rationalizer.from_pretrained("{name}")
explanation = model.explain({call})
print(explanation.prediction.label, explanation.rationale.words)
```

or `fresh explain {name} "Some text."{flag}`

## Measured

{report}

What the guarantee covers: the answer is a function of the words shown{query}. Their number is part of that: the
predictor can count them. What it does not cover: why the extractor, which reads the whole document, chose these words.

## Settings

{settings}
"""

METHODS = {
    "fresh": "The method is FRESH ([Jain et al., 2020](https://aclanthology.org/2020.acl-main.409/)): the predictor "
    "was trained on such rationales alone.",
    "lei": "Both were trained together ([Lei et al., 2016](https://aclanthology.org/D16-1011/)).",
    "bastings": "Both were trained together ([Bastings et al., 2019](https://aclanthology.org/P19-1284/)).",
    "full_text": "Here the extractor keeps every word: a model to compare others with.",
    "random": "Here the words are drawn by lot: a model to compare others with.",
    "human": "Here people chose the words, and only documents that they marked can be explained.",
}


def card_text(name: str, labels: Sequence[str], asks: bool, settings: Mapping[str, Any], report: Report | None) -> str:
    """Write what a reader of the model's page should know."""
    table = "Nothing was measured when it was saved."
    if report is not None:
        table = f"On {report.n_documents} test documents:\n\n{report.to_markdown()}"
    return TEXT.format(
        name=name,
        method=METHODS.get(str(settings.get("method")), METHODS["fresh"]),
        labels=", ".join(f"`{label}`" for label in labels),
        query=" and the query" if asks else "",
        asks=" Each document comes with a query." if asks else "",
        call='"Some text.", query="A question?"' if asks else '"Some text."',
        flag=' --query "A question?"' if asks else "",
        report=table.strip(),
        settings="\n".join(f"- `{key}`: {value}" for key, value in flatten(settings)) or "Not written down.",
    )
