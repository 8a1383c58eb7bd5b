"""Full text: a predictor that reads every word, for comparison."""

from fresh.data.splits import Splits
from fresh.document import Mask
from fresh.methods.config import FullTextConfig
from fresh.methods.result import Trained, cut_all, written_down
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import KeepAll
from fresh.training.loop import Watch


def train(splits: Splits, config: FullTextConfig, watch: Watch | None = None, name: str = "predictor") -> Trained:
    """Train a predictor on whole documents.

    :param name: What the network is called where it is kept.
    """
    masks, dev_masks = (
        [Mask.full(len(example.document.words)) for example in part] for part in (splits.train, splits.dev)
    )
    pairs, dev_pairs = cut_all(splits.train, masks), cut_all(splits.dev, dev_masks)
    predictor = Predictor.train(pairs, dev_pairs, config.classifier, (watch or Watch()).named(name))
    asks = bool(splits.train[0].document.query)
    return Trained(
        Rationalizer(KeepAll(), predictor, written_down(config, "full_text"), asks), lambda: masks, lambda: dev_masks
    )
