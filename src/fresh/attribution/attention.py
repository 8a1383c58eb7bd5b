"""How much the place that the head reads looks at each word."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fresh.attribution.attention_reader import AttentionReader
from fresh.attribution.support_model import Scores, SupportModel, normalize
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of the last layer to each word, mean over heads (Jain et al., 2020, section 5.1).

    Where texts are read in windows, it is the attention that the head weighs words by.

    The scores of a document are not negative and sum to 1.
    """

    support: SupportModel
    layer: int = -1
    """Which layer's attention: -1 is the last, -2 the one the paper's text names."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        looking = AttentionReader(self.support.classifier, self.layer)

        def score_batch(batch: Batch) -> Scores:
            output, [weights] = looking(batch)
            found = looking.by_word(weights, batch)
            return [normalize(scores) for scores in found], output.logits.argmax(-1).tolist()

        with torch.inference_mode():
            return self.support.score(documents, score_batch, above=looking.is_above())
