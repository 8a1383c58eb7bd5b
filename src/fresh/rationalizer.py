"""Rationalizer: an extractor and a predictor, frozen; explains, is saved and loaded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from huggingface_hub import ModelHubMixin

from fresh.document import Document, Explanation
from fresh.extractor import Extractor, extract_with_scores
from fresh.predictor import Predictor

Input = str | Document
"""What can be explained: raw text, or a document."""


@dataclass(eq=False)
class Rationalizer(
    ModelHubMixin,
    library_name="fresh",
    license="mit",
    pipeline_tag="text-classification",
    tags=["rationales", "faithful-explanations"],
):
    """Classifies text and shows, for every answer, exactly the words the answer was made from."""

    extractor: Extractor
    predictor: Predictor
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained."""
    asks: bool = False
    """Whether each document comes with a query."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What was measured after training."""

    def __setattr__(self, name: str, value: object) -> None:
        # Frozen by hand, since the hub's mixin writes down its own part.
        if name in self.__dict__ and not name.startswith("_hub_mixin"):
            raise AttributeError(f"A rationalizer is frozen: {name} cannot be changed. Make another one.")
        super().__setattr__(name, value)

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers it can give."""
        return self.predictor.classifier.labels

    @overload
    def explain(self, documents: Input, query: str | None = None) -> Explanation: ...  # type: ignore[overload-overlap]
    @overload
    def explain(self, documents: Sequence[Input], query: str | None = None) -> list[Explanation]: ...
    def explain(self, documents: Input | Sequence[Input], query: str | None = None) -> Explanation | list[Explanation]:
        """Classify text and say from which words.

        :param documents: Raw text or a document, or a list of them.
        :param query: What is asked about raw text, if the model was trained with queries.
        """
        if isinstance(documents, str | Document):
            return self.explain([documents], query)[0]
        read = [Document.from_text(item, query) if isinstance(item, str) else item for item in documents]
        for document in read:
            self.check_query(document)
        masks, saliencies = extract_with_scores(self.extractor, read)
        predictions = self.predictor.predict([document.cut(mask) for document, mask in zip(read, masks, strict=True)])
        return list(map(Explanation, read, masks, predictions, saliencies))

    def check_query(self, document: Document) -> None:
        """Refuse a query where none was trained, and the other way round."""
        if self.asks and not document.query:
            raise ValueError(
                f"Document {document.id!r} has no query, but this model was trained with queries: give one."
            )
        if document.query and not self.asks:
            raise ValueError(f"Document {document.id!r} has a query, but this model was trained without: leave it out.")

    def explain_stream(self, documents: Iterator[Document], at_once: int = 256) -> Iterator[Explanation]:
        """Explain documents as they come, some at a time, so that memory does not grow with their number."""
        group: list[Document] = []
        for document in documents:
            group.append(document)
            if len(group) == at_once:
                yield from self.explain(group)
                group = []
        if group:
            yield from self.explain(group)
