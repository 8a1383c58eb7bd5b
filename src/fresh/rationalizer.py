"""Rationalizer: an extractor and a predictor, frozen; explains, is saved and loaded."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, overload

from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from fresh.attribution.registry import ScorerFactory
from fresh.config import from_mapping
from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import DataConfig, read_documents
from fresh.document import Document, Explanation
from fresh.errors import DataError, ModelError
from fresh.model_card import card_text
from fresh.persistence import (
    CARD,
    SEEN,
    files_in,
    naming_damage,
    near,
    read_folder,
    write_files,
    write_folder,
    written_at_once,
)
from fresh.predictor import Predictor
from fresh.reporting.report import Report
from fresh.selection.curve import Curve, ratios_of
from fresh.selection.discretizers import is_number
from fresh.selection.extractors import Extractor, at_ratio, extract_with_scores, select_masks

AT_ONCE = 256
"""Documents that are explained together where there are many."""
RANGE = "a model that was trained for a range of ratios, such as ratio=0.05:0.5. This one serves a single length."

Input = str | Document
"""What can be explained: raw text, or a document."""


@dataclass(eq=False)
class Rationalizer(
    ModelHubMixin,
    library_name="fresh",
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
    report: Report | None = None
    """What was measured after training."""
    ratios: tuple[float, float] | None = None
    """Lowest and highest share of words that the predictor was trained for, if not one alone."""
    seen: TrainingFingerprints | None = None
    """Which texts it was trained with, if that is known."""

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
    def explain(  # type: ignore[overload-overlap]
        self, documents: Input, query: str | None = None, ratio: float | None = None
    ) -> Explanation: ...
    @overload
    def explain(
        self, documents: Sequence[Input], query: str | None = None, ratio: float | None = None
    ) -> list[Explanation]: ...
    def explain(
        self, documents: Input | Sequence[Input], query: str | None = None, ratio: float | None = None
    ) -> Explanation | list[Explanation]:
        """Classify text and say from which words.

        :param documents: Raw text or a document, or a list of them.
        :param query: What is asked about raw text, if the model was trained with queries.
        :param ratio: Share of the words to read, if the model was trained for a range of them.
        """
        if isinstance(documents, str | Document):
            return self.explain([documents], query, ratio)[0]
        if not isinstance(documents, Iterable):
            raise TypeError(f"Texts and documents can be explained, got {type(documents).__name__}.")
        extractor = self.extractor if ratio is None else at_ratio(self.extractor, self.served(ratio))
        read = [Document.from_text(item, query) if isinstance(item, str) else item for item in documents]
        for document in read:
            if type(document) is not Document:
                raise TypeError(f"Texts and documents can be explained, got {type(document).__name__}.")
            self.check_query(document)
        masks, saliencies = extract_with_scores(extractor, read)
        rationales = [document.cut(mask) for document, mask in zip(read, masks, strict=True)]
        predictions = self.predictor.predict(rationales)
        return list(map(Explanation, read, masks, rationales, predictions, saliencies))

    def curve(self, document: Input, query: str | None = None) -> Curve:
        """Answer from growing rationales of one document, for a model that was trained for a range of ratios."""
        if self.ratios is None:
            raise ValueError(f"A curve needs {RANGE}")
        read = Document.from_text(document, query) if isinstance(document, str) else document
        [whole] = self.explain([read])
        assert whole.saliency is not None
        extractors = [at_ratio(self.extractor, ratio) for ratio in ratios_of(len(read.words), *self.ratios)]
        masks = [select_masks(extractor.discretizer, [whole.saliency])[0] for extractor in extractors]
        rationales = [read.cut(mask) for mask in masks]
        found = zip(masks, rationales, self.predictor.predict(rationales), strict=True)
        return Curve(tuple(Explanation(read, *parts, whole.saliency) for parts in found))

    def served(self, ratio: float) -> float:
        """Refuse a ratio that the predictor was not trained for."""
        if self.ratios is None:
            raise ValueError(f"Another ratio needs {RANGE}")
        low, high = self.ratios
        if not is_number(ratio) or not low <= ratio <= high:
            raise ValueError(f"ratio must be from {low} to {high}, for which this model was trained, got {ratio!r}.")
        return ratio

    def check_query(self, document: Document) -> None:
        """Refuse a query where none was trained, and the other way round."""
        if self.asks and not document.query:
            raise ValueError(
                f"Document {document.id!r} has no query, but this model was trained with queries. Give one: `query` "
                "for a text; for a file, the column query, or the one that `query` names."
            )
        if document.query and not self.asks:
            raise ValueError(f"Document {document.id!r} has a query, but this model was trained without: leave it out.")

    def explain_file(self, path: str | Path, **columns: Any) -> Iterator[Explanation]:
        """Explain the texts of a file, a few at a time.

        :param columns: How to read it, as for training: ``text="review"``, ``query=...``, ``tokenised=True``.
        """
        return self.explain_stream(read_documents(path, from_mapping(DataConfig, columns)))

    def explain_stream(
        self, documents: Iterator[Document], at_once: int = AT_ONCE, ratio: float | None = None
    ) -> Iterator[Explanation]:
        """Explain documents as they come, some at a time, so that memory does not grow with their number."""
        group: list[Document] = []
        try:
            for document in documents:
                group.append(document)
                if len(group) == at_once:
                    whole, group = group, []
                    yield from self.explain(whole, ratio=ratio)
        except DataError:  # what came before the row that cannot be read is explained first
            yield from self.explain(group, ratio=ratio)
            raise
        yield from self.explain(group, ratio=ratio)

    def save_pretrained(  # type: ignore[override]  # to share a model, push_to_hub
        self,
        save_directory: str | Path,
        *,
        overwrite: bool = False,
        config: None = None,
        model_card_kwargs: Mapping[str, str] | None = None,
    ) -> None:
        """Write everything to one folder, in one move: safetensors and JSON, and a card.

        :param overwrite: Replace a model that is there already.
        :param config: Given by the hub, and of no meaning here.
        :param model_card_kwargs: What the card says; ``name`` is what it calls the model, else by the folder's name.
        """
        folder = Path(save_directory)
        report = None if self.report is None else self.report.to_dict()
        about = {"asks": self.asks, "settings": dict(self.settings), "report": report, "ratios": self.ratios}
        with written_at_once(folder, overwrite) as place:
            if self.seen is not None:
                self.seen.save(place / SEEN)
            self.generate_model_card(**{"name": folder.name, **(model_card_kwargs or {})}).save(place / CARD)
            write_folder(place, self.extractor, self.predictor, about)

    def push_to_hub(self, repo_id: str, **hub: Any) -> str:
        """Upload it to the hub, with a card that calls it by its name there.

        What tells which texts it was trained with stays behind: anybody there could ask whether a text was among them.

        :param hub: commit_message, private, token, branch, create_pr and the like, for the hub.
        """
        if self.seen is not None:
            return replace(self, seen=None).push_to_hub(repo_id, **hub)
        return super().push_to_hub(repo_id, **{"model_card_kwargs": {"name": repo_id}, **hub})

    def __reduce__(self) -> tuple[Any, ...]:
        # Networks that were asked for attention cannot be pickled; a saved model's files can.
        with tempfile.TemporaryDirectory() as place:
            self.save_pretrained(Path(place) / "model")
            return unpacked, (files_in(Path(place) / "model"), str(self.predictor.classifier.device))

    def generate_model_card(self, *_args: Any, name: str = "model", **_template: Any) -> ModelCard:
        """Write the card, with what was measured."""
        data = self._hub_mixin_info.model_card_data
        text = card_text(name, self.labels, self.asks, self.settings, self.report)
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}", ignore_metadata_errors=True)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        device: str = "auto",
        scorer: ScorerFactory | None = None,
        **hub: Any,
    ) -> Self:
        """Read a model from a folder, or fetch it from the hub by its name.

        :param device: Where to compute: auto, cpu, cuda, ...
        :param scorer: Makes the scorer, if the model was trained with one of your own.
        :param hub: revision, token, cache_dir, local_files_only or force_download, for the hub.
        """
        folder = find_folder(pretrained_model_name_or_path, hub)
        extractor, predictor, about = read_folder(folder, device, scorer)
        with naming_damage(folder):
            report = None if about["report"] is None else Report.from_dict(about["report"])
            ratios = None if about["ratios"] is None else tuple(about["ratios"])
            seen = TrainingFingerprints.load(folder / SEEN) if SEEN in about["files"] else None
        return cls(extractor, predictor, about["settings"], about["asks"], report, ratios, seen)


def unpacked(files: Mapping[str, bytes], device: str) -> Rationalizer:
    """Read a model from the files that it was saved in."""
    with tempfile.TemporaryDirectory() as place:
        write_files(files, Path(place))
        return Rationalizer.from_pretrained(place, device=device)


def find_folder(name: str | Path, hub: Mapping[str, Any]) -> Path:
    """Find a model on this machine, or else on the hub if it is called as models are there: owner/name."""
    if Path(name).exists():
        return Path(name)
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", str(name)) is None or Path(name).parent.exists():
        raise ModelError(f"There is no folder {name}. {near(Path(name))}")
    try:
        return Path(snapshot_download(str(name), **hub))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"There is no folder {name}, and the model hub did not give it: {reason}") from error
