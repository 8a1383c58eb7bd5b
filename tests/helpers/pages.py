"""Pages for tests: a small one, and one as large as the report of the movies corpus. All figures are invented."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fresh.document import Document, Example, Explanation, Mask
from fresh.metrics.bootstrap import Estimate, Interval, LengthScore, Measure
from fresh.metrics.classification import Bin, ClassScore
from fresh.rationale import Prediction
from fresh.reporting.html import AgreementRow, Pair, ScoreRow, ShownDocument, View, render
from fresh.reporting.report import Figures, Verdict
from fresh.text import Spans

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> \"'` & \u202egnp.exe \u2028 😀 \ud800 \x00"
)
NAME = "FRESH (attention × gradient, contiguous)"
GUARANTEE = (
    "The predictor was given the marked words and nothing else.\n\nWhy these words were chosen is not guaranteed."
)


def shown_document(
    text: str,
    kept: str,
    *,
    gold: str = "pos",
    human: Spans | None = None,
    query: str = "",
    id: str = "d-1",
    probabilities: dict[str, float] | None = None,
) -> ShownDocument:
    """A document in which some words were read, given by their numbers: "0 2 3"."""
    document = Document.from_text(text, query, id)
    n_words = len(document.words)
    mask = Mask(np.isin(np.arange(n_words), [int(number) for number in kept.split()]))
    prediction = Prediction("pos", probabilities or {"neg": 0.25, "pos": 0.75})
    example = Example(document, gold, None if human is None else Mask.from_spans(human, n_words))
    return example, Explanation(document, mask, document.cut(mask), prediction)


def small_view(**changes: Any) -> View:
    """The smallest valid page."""
    row = ScoreRow("FRESH", Estimate(0.8), Estimate(0.75), Estimate(0.2), own=True)
    return replace(View("A page", (row,), (shown_document("A lovely film.", "1"),)), **changes)


def write_page(view: View, folder: Path) -> str:
    """Write a page to a file and return its address."""
    path = folder / "report.html"
    path.write_text(render(view), encoding="utf-8")
    return path.as_uri()


def movies_view(examples: Sequence[Example]) -> View:
    """A page with every part, over real reviews."""
    documents = tuple(map(read_somehow, examples))
    found = [(example.label, item.prediction.label) for example, item in documents]
    labels = ("NEG", "POS")
    return View(
        title="FRESH on movies",
        headline=HEADLINE,
        documents=documents,
        data="movies, test",
        when="15 November 2026",
        settings=(("method", "fresh"), ("scorer", "attention_gradient"), ("ratio", "0.3"), ("encoder", "minilm")),
        versions=(("fresh-rationales", "0.1.0"), ("weights", "sha256 53aa51172d142c89d9012cce15ae4d6c")),
        classes=(
            ClassScore("NEG", 0.887, 0.86, 0.873, 100, (0.82, 0.946), (0.79, 0.925), (0.82, 0.918)),
            ClassScore("POS", 0.863, 0.889, 0.876, 99, (0.793, 0.927), (0.826, 0.947), (0.824, 0.922)),
        ),
        figures=Figures(
            labels,
            tuple(tuple(found.count((gold, label)) for label in labels) for gold in labels),
            CALIBRATION,
            BINS,
            lengths=LENGTHS,
        ),
        full_text=0.919,
        agreement=AGREEMENT,
        verdicts=VERDICTS,
        guarantee=GUARANTEE,
        pairs=PAIRS,
        notes=("Masks and figures on this page are invented: it is a test.",),
    )


def hostile_view() -> View:
    """A page in which every text tries to break out."""
    sure = Estimate(0.5, 0.4, 0.6)
    document = shown_document(f"x {HOSTILE}", "0", id=HOSTILE, query=HOSTILE, gold=HOSTILE, human=((0, 1),))
    return View(
        title=HOSTILE,
        headline=(ScoreRow(HOSTILE, sure, sure, sure, own=True),),
        documents=(document,),
        data=HOSTILE,
        when=HOSTILE,
        settings=((HOSTILE, HOSTILE),),
        versions=((HOSTILE, HOSTILE),),
        classes=(ClassScore(HOSTILE, 0.5, 0.5, 0.5, 1),),
        figures=Figures((HOSTILE,), ((1,),), (), ()),
        agreement=(replace(AGREEMENT[0], name=HOSTILE),),
        verdicts=(Verdict(HOSTILE, "holds", HOSTILE, (HOSTILE,)),),
        guarantee=HOSTILE,
        pairs=(Pair(HOSTILE, HOSTILE, HOSTILE, sure, 0.5),),
        notes=(HOSTILE,),
    )


def read_somehow(example: Example) -> ShownDocument:
    """Keep a third of the words in runs of eight, and be right five times out of six."""
    document = example.document
    chance = zlib.crc32(document.id.encode())
    flags = (np.arange(len(document.words)) + chance % 24) // 8 % 3 == 0
    right = chance % 6 != 0
    label = example.label if right else {"NEG": "POS", "POS": "NEG"}[example.label]
    sure = 0.5 + (chance >> 8) % 500 / 1000 if right else 0.5 + (chance >> 8) % 350 / 1000
    other = {"NEG": "POS", "POS": "NEG"}[label]
    mask = Mask(flags)
    return example, Explanation(document, mask, document.cut(mask), Prediction(label, {label: sure, other: 1 - sure}))


def estimate(value: float, width: float) -> Estimate:
    return Estimate(value, max(value - width, 0.0), min(value + width, 1.0))


HEADLINE = (
    ScoreRow(NAME, estimate(0.874, 0.046), estimate(0.874, 0.045), Estimate(0.301), own=True),
    ScoreRow("full text", estimate(0.919, 0.037), estimate(0.92, 0.037), Estimate(1.0)),
    ScoreRow("random words", estimate(0.688, 0.064), estimate(0.693, 0.063), Estimate(0.301)),
    ScoreRow("complement (what was dropped)", estimate(0.759, 0.058), estimate(0.764, 0.058), Estimate(0.699)),
    ScoreRow("majority class", estimate(0.334, 0.021), estimate(0.503, 0.07), Estimate(0.0)),
)
LENGTHS = tuple(
    LengthScore(ratio, Interval(f1, f1 - 0.05, f1 + 0.05))
    for ratio, f1 in ((0.05, 0.741), (0.1, 0.793), (0.2, 0.848), (0.3, 0.874), (0.5, 0.9))
)
BINS = (
    Bin(0.5, 0.6, 21, 0.554, 0.48, (0.27, 0.69)),
    Bin(0.6, 0.7, 23, 0.652, 0.61, (0.41, 0.8)),
    Bin(0.7, 0.8, 31, 0.751, 0.77, (0.61, 0.91)),
    Bin(0.8, 0.9, 45, 0.853, 0.89, (0.79, 0.97)),
    Bin(0.9, 1.0, 79, 0.958, 0.97, (0.93, 1.0)),
)
CALIBRATION = (
    Measure("expected calibration error", Interval(0.041, 0.023, 0.059)),
    Measure("Brier score", Interval(0.098, 0.076, 0.12)),
)
COLUMNS = ("precision", "recall", "token F1", "IoU-F1", "AUPRC")
AGREEMENT = (
    AgreementRow(NAME, {name: estimate(0.1 * place, 0.03) for place, name in enumerate(COLUMNS, 1)}, own=True),
    AgreementRow("random words", {name: estimate(0.3, 0.01) for name in COLUMNS[:4]}),
    AgreementRow("a published figure", {"token F1": Estimate(0.466), "AUPRC": Estimate(0.567)}),
)
VERDICTS = (
    Verdict("Replay", "holds", "All 199 predictions are equal.", ("199 of 199 equal, bit for bit",)),
    Verdict("Invariance", "holds", "No change of the dropped words changed a probability.", ("10,000 trials",)),
    Verdict("Length tells the label", "broken", "The number of words predicts the label.", ("accuracy 0.94",)),
    Verdict("Degenerate rationales", "look here", "In 12 documents only the first words were kept.", ("cv000_29416",)),
    Verdict("Split hygiene", "not run", "The training documents were not given."),
)
PAIRS = (
    Pair("FRESH", "full text", "macro-F1", Estimate(-0.045, -0.081, -0.009), 0.018, adjusted=0.036),
    Pair("FRESH", "random words", "macro-F1", Estimate(0.186, 0.127, 0.246), 0.0001, adjusted=0.0003),
    Pair("FRESH", "complement", "macro-F1", Estimate(0.115, 0.06, 0.169), 0.0004, adjusted=0.0008),
)
