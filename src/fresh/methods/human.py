"""Human rationales: a predictor that reads what people marked, the upper line for plausibility."""

from fresh.data.splits import DataError, Splits
from fresh.document import Example
from fresh.methods.config import HumanConfig
from fresh.methods.rationales import has_rationale
from fresh.methods.result import Trained, cut_all, written_down
from fresh.predictor import Predictor
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import HumanMarks
from fresh.training.loop import Watch


def only_marked(splits: Splits, progress: Progress) -> Splits:
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


def train(splits: Splits, config: HumanConfig, watch: Watch | None = None) -> Trained:
    """Train a predictor on people's rationales; the model can explain the documents given here and no others."""
    watch = watch or Watch()
    splits = only_marked(splits, watch.progress)
    masks, dev_masks = (
        [example.human for example in part if example.human is not None] for part in (splits.train, splits.dev)
    )
    pairs, dev_pairs = cut_all(splits.train, masks), cut_all(splits.dev, dev_masks)
    predictor = Predictor.train(pairs, dev_pairs, config.classifier, watch.named("predictor"))
    extractor = HumanMarks.of((*splits.train, *splits.dev, *splits.test))
    asks = bool(splits.train[0].document.query)
    return Trained(
        Rationalizer(extractor, predictor, written_down(config, "human"), asks), lambda: masks, lambda: dev_masks
    )
