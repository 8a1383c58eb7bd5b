"""What models did on the same documents, as figures with their ranges, and tests between two of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fresh.document import Example, Explanation
from fresh.evaluation.comparison_report import ModelRow
from fresh.evaluation.gold_labels import GoldLabels
from fresh.metrics import plausibility as agreement
from fresh.metrics.bootstrap import accuracy_interval, macro_f1_interval, ratio_interval
from fresh.metrics.classification import accuracy, macro_f1
from fresh.metrics.estimate import Estimate
from fresh.metrics.resampling import Numbers, Values
from fresh.metrics.significance import N_PERMUTATIONS, Comparison, compare_accuracy, compare_macro_f1, holm, welch
from fresh.reporting.html import DocumentView, Pair

MOST_SHOWN = 1_000
"""Documents that a page shows at most."""
MEASURES = {"macro_f1": "macro-F1", "accuracy": "accuracy"}
"""What groups of runs are tested in."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What one model did, counted for each document."""

    answers: tuple[str, ...]
    n_kept: Numbers
    """Words that were read. Shape: (documents,)."""
    n_words: Numbers
    """All words. Shape: (documents,)."""
    token_f1: Values
    """Agreement with people, added up over the texts of each document that people marked. Shape: (marked,)."""
    n_parts: Values
    """How many texts, of which a document may be joined, that is a sum over. Shape: (marked,)."""
    marked: Numbers
    """The numbers of the documents that people marked. Shape: (marked,)."""

    @property
    def kept(self) -> float:
        """Share of all words that was read."""
        return float(self.n_kept.sum() / self.n_words.sum())

    @property
    def agreement(self) -> float:
        """Mean token F1 over all texts that people or the model marked."""
        return float(self.token_f1.sum() / max(1.0, self.n_parts.sum()))


def measure(examples: Sequence[Example], explained: Sequence[Explanation]) -> Measured:
    """Count what a model did in each document."""
    answers = tuple(explanation.prediction.label for explanation in explained)
    n_kept = np.array([int(explanation.mask.kept.sum()) for explanation in explained])
    n_words = np.array([len(explanation.mask) for explanation in explained])
    marked = np.array(
        [number for number, example in enumerate(examples) if example.human_spans is not None], dtype=np.int64
    )
    if not len(marked):
        return Measured(answers, n_kept, n_words, np.empty(0), np.empty(0), marked)
    tally = agreement.compare(examples, explained).tally
    there = (tally.words_marked > 0) | (tally.words_kept > 0)  # the others are left out of the mean
    sums, counts = np.zeros(len(examples)), np.zeros(len(examples))
    np.add.at(sums, tally.example[there], tally.token_f1[there])
    np.add.at(counts, tally.example[there], 1.0)
    return Measured(answers, n_kept, n_words, sums[marked], counts[marked], marked)


def model_row(name: str, key: GoldLabels, measured: Measured) -> ModelRow:
    """Work out the figures of one model, with bootstrap intervals over documents, or over texts that these share."""
    numbers = key.numbered(key.gold), key.numbered(measured.answers)
    marked = None if key.texts is None else key.texts[measured.marked]
    people = ratio_interval(measured.token_f1, measured.n_parts, texts=marked) if len(measured.marked) else None
    return ModelRow(
        name,
        macro_f1_interval(*numbers, len(key.labels), texts=key.texts),
        accuracy_interval(*numbers, texts=key.texts),
        ratio_interval(measured.n_kept, measured.n_words, texts=key.texts),
        people,
    )


Figures = Mapping[str, Sequence[float]]
"""One figure a run, by the name of the figure."""


def figures_of(key: GoldLabels, runs: Sequence[Measured]) -> Figures:
    """Work out the figures of each run of a group."""
    figures = {
        "macro_f1": [macro_f1(key.gold, run.answers, key.labels) for run in runs],
        "accuracy": [accuracy(key.gold, run.answers) for run in runs],
        "kept": [run.kept for run in runs],
    }
    marked = any(len(run.marked) for run in runs)
    return figures | {"token_f1": [run.agreement for run in runs]} if marked else figures


def group_row(name: str, runs: tuple[str, ...], figures: Figures) -> ModelRow:
    """Take means over runs, from the lowest to the highest."""
    means = {figure: Estimate(sum(own) / len(own), min(own), max(own)) for figure, own in figures.items()}
    return ModelRow(name, **means, runs=runs)


def paired_tests(pair: tuple[str, str], key: GoldLabels, first: Measured, second: Measured) -> list[Pair]:
    """Test two models on the same documents."""
    gold, one, two = (key.numbered(given) for given in (key.gold, first.answers, second.answers))
    found = (
        compare_macro_f1(gold, one, two, len(key.labels), texts=key.texts),
        compare_accuracy(gold, one, two, texts=key.texts),
    )
    return [Pair(*pair, test.measure, test.difference, test.p, _how_tested(test)) for test in found]


def _how_tested(comparison: Comparison) -> str:
    """Say on how many documents, or whole texts, a swap matters, and how many swaps were tried."""
    swaps = "all swaps were counted" if comparison.exact else f"{N_PERMUTATIONS:,} random swaps"
    units = "whole texts" if comparison.by_text else "documents"
    return f"a swap matters on {comparison.n_discordant:,} {units}; {swaps}"


def seed_tests(pair: tuple[str, str], figures: Mapping[str, Figures]) -> Iterator[Pair]:
    """Test the means over seeds of two groups."""
    for figure, measure in MEASURES.items():
        found = welch(*(figures[name][figure] for name in pair))
        says = found.note if found.t is None else f"Welch's t({found.degrees:.1f}) = {found.t:.2f}"
        yield Pair(*pair, measure, Estimate(found.difference), found.p, says)


def corrected(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Correct the p of all tests together, whatever pair and measure they are of, as Holm does."""
    given = {str(number): pair.p for number, pair in enumerate(pairs) if pair.p is not None}
    adjusted = {one.name: one.adjusted for one in holm(given)}
    return tuple(replace(pair, adjusted=adjusted.get(str(number))) for number, pair in enumerate(pairs))


def shown(examples: Sequence[Example], explained: Sequence[Explanation]) -> tuple[DocumentView, ...]:
    """Say what a page shows of each document, or of some from all over the data where there are too many."""
    step = max(1.0, len(examples) / MOST_SHOWN)
    places = [int(number * step) for number in range(min(len(examples), MOST_SHOWN))]
    return tuple(DocumentView.of(examples[place], explained[place]) for place in places)
