"""Full text: a predictor that reads every word, for comparison."""

from fresh.data.splits import Splits
from fresh.document import Mask
from fresh.methods.config import FullTextConfig
from fresh.methods.result import MethodResult, cut_examples, settings_record
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import FullText
from fresh.training.loop import RunContext


def train(
    splits: Splits, config: FullTextConfig, context: RunContext | None = None, name: str = "predictor"
) -> MethodResult:
    """Train a predictor on whole documents.

    :param name: What the network is called where it is kept.
    """
    masks, dev_masks = (
        [Mask.full(len(example.document.words)) for example in part] for part in (splits.train, splits.dev)
    )
    pairs, dev_pairs = cut_examples(splits.train, masks), cut_examples(splits.dev, dev_masks)
    predictor = Predictor.train(pairs, dev_pairs, config.classifier, (context or RunContext()).named(name))
    asks = bool(splits.train[0].document.query)
    return MethodResult(
        Rationalizer(FullText(), predictor, settings_record(config, "full_text"), asks),
        lambda: masks,
        lambda: dev_masks,
    )
