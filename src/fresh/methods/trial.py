"""How well a gate and a reader do on dev, while they learn."""

from collections.abc import Sequence

from fresh.data.splits import Splits
from fresh.document import Document, Saliency
from fresh.metrics.classification import macro_f1
from fresh.predictor import Predictor
from fresh.selection.discretizers import Discretizer
from fresh.selection.extractors import SaliencyExtractor, select_masks
from fresh.training.distributed import process_group


class DevEvaluator:
    """Measures macro-F1 on dev with the gate cut to its length, as it will be used."""

    def __init__(self, extractor: SaliencyExtractor, predictor: Predictor, splits: Splits) -> None:
        self.extractor = extractor
        self.predictor = predictor
        self.labels = splits.labels
        self.gold = [example.label for example in splits.dev]
        self.documents: Sequence[Document] = process_group().share([example.document for example in splits.dev])
        self.scored: list[Saliency] = []

    def anew(self) -> float:
        """Ask the gate, and measure."""
        self.scored = self.extractor.score(self.documents)
        return self.again(self.extractor.discretizer)

    def again(self, discretizer: Discretizer) -> float:
        """Measure with what the gate last said, cut by any discretizer."""
        masks = select_masks(discretizer, self.scored)
        rationales = [document.cut(mask) for document, mask in zip(self.documents, masks, strict=True)]
        answers = process_group().join([answer.label for answer in self.predictor.predict(rationales)])
        return macro_f1(self.gold, answers, self.labels)
