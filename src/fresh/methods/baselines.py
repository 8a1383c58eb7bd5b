"""Baselines: predictors of the full text, of random words, and of the words that people marked."""

from dataclasses import fields, replace

from fresh.data.splits import Splits
from fresh.document import Example
from fresh.errors import DataError
from fresh.methods import fresh
from fresh.methods.config import CutConfig, FreshConfig, FullTextConfig, HumanConfig, RandomConfig
from fresh.methods.rationales import cut_splits, has_rationale
from fresh.methods.registry import MethodResult, make_rationalizer, settings_record
from fresh.predictor import Predictor
from fresh.progress import Progress
from fresh.selection.extractors import Extractor, FullText, HumanRationales
from fresh.text import plural
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext


def train_full_text(
    splits: Splits, config: FullTextConfig, context: RunContext, name: str = "predictor"
) -> MethodResult:
    """Train a predictor on whole documents; checkpoints call it by its name."""
    return _train("full_text", splits, config, context.with_name(name), FullText())


def train_random(splits: Splits, config: RandomConfig, context: RunContext) -> MethodResult:
    """Train a predictor on random words: as many as a rationale has, in the order of the document."""
    shared = {item.name: getattr(config, item.name) for item in fields(CutConfig)}
    result = fresh.train(splits, FreshConfig(**shared, scorer="random"), context)
    return replace(result, model=replace(result.model, settings=settings_record("random", config)))


def train_human(splits: Splits, config: HumanConfig, context: RunContext) -> MethodResult:
    """Train a predictor on people's rationales; the model explains the documents of these splits only."""
    splits = keep_annotated(splits, context.progress)
    extractor = HumanRationales.of((*splits.train, *splits.dev, *splits.test))
    return _train("human", splits, config, context.with_name("predictor"), extractor)


def keep_annotated(splits: Splits, progress: Progress) -> Splits:
    """Leave out documents in which people marked nothing, and say how many."""
    n_left_out, annotated = 0, dict[str, tuple[Example, ...]]()
    for name in ("train", "dev", "test"):
        part = getattr(splits, name)
        annotated[name] = tuple(filter(has_rationale, part))
        n_left_out += len(part) - len(annotated[name])
        if not annotated[name]:
            problem = f"method=human reads people's rationales, but no {name} document has one."
            raise DataError(f"{problem} Use data with rationales, or choose another method.")
    if n_left_out:
        progress.say(f"Left out: {plural(n_left_out, 'document')} without a human rationale.")
    return Splits(**annotated)


def _train(
    name: str, splits: Splits, config: ClassifierConfig, context: RunContext, extractor: Extractor
) -> MethodResult:
    masks, dev_masks = (extractor.extract([item.document for item in part]) for part in (splits.train, splits.dev))
    [predictor] = Predictor.train_many([cut_splits(splits, masks, dev_masks)], [config], context)
    model = make_rationalizer(name, splits, config, extractor, predictor)
    return MethodResult(model, lambda: masks, lambda: dev_masks)
