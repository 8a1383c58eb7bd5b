"""What tests of model folder share with others."""

from collections.abc import Sequence

from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Saliency


class LongWords:
    """A scorer of somebody's own."""

    def __init__(self, support: SupportModel) -> None:
        self.support = support

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        return [Saliency([len(word) for word in item.words], "pos", item.id) for item in documents]  # type: ignore[arg-type]
