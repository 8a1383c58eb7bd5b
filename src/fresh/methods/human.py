"""Human rationales: a predictor that reads what people marked, the upper line for plausibility."""

from fresh.data.splits import Splits
from fresh.document import Example
from fresh.errors import DataError
from fresh.methods.config import HumanConfig
from fresh.methods.rationales import has_rationale
from fresh.methods.result import MethodResult, cut_examples, settings_record
from fresh.predictor import Predictor
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import HumanRationales
from fresh.training.loop import RunContext


def keep_with_rationale(splits: Splits, progress: Progress) -> Splits:
    """Leave out documents in which people marked nothing, and say how many these are."""
    parts = {name: getattr(splits, name) for name in ("train", "dev", "test")}
    kept: dict[str, tuple[Example, ...]] = {}
    for name, part in parts.items():
        kept[name] = tuple(example for example in part if has_rationale(example))
        if not kept[name]:
            raise DataError(
                f"method=human reads people's rationales, but no {name} document has one. Give data with rationales, "
                "or choose another method."
            )
    lost = sum(len(parts[name]) - len(kept[name]) for name in parts)
    if lost:
        progress.say(f"{lost:,} documents without a human rationale are left out.")
    return Splits(**kept)


def train(splits: Splits, config: HumanConfig, context: RunContext | None = None) -> MethodResult:
    """Train a predictor on people's rationales; the model can explain the documents given here and no others."""
    context = context or RunContext()
    splits = keep_with_rationale(splits, context.progress)
    masks, dev_masks = (
        [example.human for example in part if example.human is not None] for part in (splits.train, splits.dev)
    )
    pairs, dev_pairs = cut_examples(splits.train, masks), cut_examples(splits.dev, dev_masks)
    predictor = Predictor.train(pairs, dev_pairs, config.classifier, context.named("predictor"))
    extractor = HumanRationales.of((*splits.train, *splits.dev, *splits.test))
    asks = bool(splits.train[0].document.query)
    return MethodResult(
        Rationalizer(extractor, predictor, settings_record(config, "human"), asks), lambda: masks, lambda: dev_masks
    )
