"""Whether rationales say the same to a predictor that cannot share a code with the extractor."""

from collections.abc import Sequence

from fresh.document import Example, Explanation, Mask
from fresh.evaluation.baselines import majority_label
from fresh.evaluation.evaluation import GoldLabels
from fresh.methods.independent import is_independent
from fresh.metrics import bootstrap
from fresh.metrics.classification import macro_f1
from fresh.metrics.significance import compare_macro_f1
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict

NAME = "independent reader"
# Macro-F1 that the independent reader may lose against the predictor.
MAX_GAP = 0.05
# What the reader must know of the documents themselves: a share of the predictor's lead over the majority class. A
# reader that cannot read this corpus would find a code in everything.
MIN_SKILL = 0.5


def check_independent(
    model: Rationalizer, examples: Sequence[Example], explained: Sequence[Explanation], reader: Predictor | None
) -> Verdict:
    """Compare the predictor with the independent reader on the same rationales.

    :param reader: The predictor of random words (see `fresh.methods.independent`).
    """
    if reader is None and is_independent(model):
        says = (
            "According to its settings, the predictor was trained on random words, without any extractor, so the two "
            "cannot share a code. Nothing was measured."
        )
        return Verdict(NAME, "holds", says)
    if reader is None:
        says = (
            "The model has no independent reader. Training adds one unless `baseline` is off; for a model that is "
            "trained already, use fresh.methods.train_independent."
        )
        return Verdict(NAME, "not run", says)
    labels = model.labels
    gold, own = GoldLabels.of(examples, labels), [item.prediction.label for item in explained]
    wholes = [item.document.cut(Mask.full(len(item.document.words))) for item in explained]
    read, full = (
        [prediction.label for prediction in reader.predict(rationales)]
        for rationales in ([item.rationale for item in explained], wholes)
    )
    majority = macro_f1(gold.gold, [majority_label(examples)] * len(examples), labels)
    right, mine, others = map(gold.numbered, (gold.gold, own, read))
    found = compare_macro_f1(right, mine, others, len(labels), texts=gold.texts)
    agreement = bootstrap.mean_interval(mine == others, texts=gold.texts)
    reads_full = macro_f1(gold.gold, full, labels)
    evidence = (
        f"Macro-F1 from the rationales: the predictor {found.first:.3f}, the independent reader {found.second:.3f}; "
        f"difference {found.difference}.",
        f"Share of the rationales from which both predict the same label: {agreement}.",
        f"Macro-F1 of the independent reader from whole documents: {reads_full:.3f}; majority class: {majority:.3f}.",
    )
    says = (
        f"A predictor of random words, which has never seen a choice of the extractor, has macro-F1 {found.second:.3f} "
        f"from the rationales, and the model's own predictor {found.first:.3f} (difference {found.difference})"
    )
    if found.first <= majority:
        says = "The predictor is no better than the majority class, so its rationales have nothing to understand."
        return Verdict(NAME, "not run", says, evidence)
    if found.difference.high <= MAX_GAP:
        return Verdict(NAME, "holds", f"{says}.", evidence)
    if reads_full - majority < MIN_SKILL * (found.first - majority):
        says = "The independent reader classifies whole documents too poorly to judge these rationales."
        return Verdict(NAME, "not run", says, evidence)
    if found.difference.low > MAX_GAP:
        says += ": the predictor understands rationales that the reader does not. Their choice may be a code."
        return Verdict(NAME, "look here", says, evidence)
    return Verdict(NAME, "not run", f"{says}: these are too few documents to tell.", evidence)
