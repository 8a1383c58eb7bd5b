"""Rationalizer: an extractor and a predictor. It explains, and can be saved, loaded and shared."""

import difflib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, overload

from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from fresh.attribution import ScorerFactory
from fresh.config import from_mapping, is_finite_number
from fresh.data import DataConfig, read_documents
from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Explanation, Mask, Saliency
from fresh.errors import DataError, ModelError, first_line
from fresh.persistence import (
    CARD,
    FINGERPRINTS,
    MANIFEST,
    READER,
    atomic_folder,
    card_text,
    check_model,
    load_extractor,
    load_predictor,
    read_files,
    report_damage,
    save_halves,
    write_files,
)
from fresh.predictor import Predictor
from fresh.reporting.report import Report
from fresh.selection.extractors import Curve, Extractor, curve_ratios, extract_with_scores, select_masks, with_ratio

BATCH_SIZE = 256  # documents that a stream explains together
_RANGE = (
    "a model that was trained for a range of ratios, such as 0.05:0.5, or with an independent predictor. This one has "
    "a single ratio."
)

Input = str | Document  # what can be explained


@dataclass(frozen=True, slots=True)
class ExplainSpec:
    """A document to explain, and how."""

    document: Document
    ratio: float | None = None
    """Share of the words to read; None for the model's own."""
    mask: Mask | None = None
    """The words to read; None lets the extractor select them."""
    curve: bool = False
    """Explain with growing rationales instead of one."""


@dataclass(eq=False)
class Rationalizer(
    ModelHubMixin,
    library_name="fresh",
    pipeline_tag="text-classification",
    tags=["rationales", "faithful-explanations"],
):
    """Classifies text and shows, for every answer, exactly the words the answer was computed from."""

    extractor: Extractor
    predictor: Predictor
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained."""
    needs_query: bool = False
    """Whether each document comes with a query."""
    report: Report | None = None
    """What was measured after training."""
    ratios: tuple[float, float] | None = None
    """Lowest and highest ratio that the predictor was trained for; None for a single one."""
    fingerprints: TrainingFingerprints | None = None
    """Digests of the texts it was trained on, if they are known."""
    reader: Predictor | Path | None = None
    """An independent reader of the same corpus, which audits ask (see `fresh.methods.independent`), or its folder."""

    def __setattr__(self, name: str, value: object) -> None:
        # Frozen by hand, since the hub's mixin sets attributes of its own after __init__.
        if name in self.__dict__ and not name.startswith("_hub_mixin"):
            raise AttributeError(f"A rationalizer is frozen: {name} cannot be changed. Create another one.")
        super().__setattr__(name, value)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels it can answer with."""
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
        """Classify text and show the words that each answer was computed from.

        :param documents: Raw text or a document, or a list of them.
        :param query: The query about raw text, for a model that was trained with queries.
        :param ratio: Share of the words to read, for a model that was trained for a range of ratios.
        """
        if isinstance(documents, str | Document):
            return self.explain([documents], query, ratio)[0]
        # A frame or a mapping would give its column names or keys.
        if not isinstance(documents, Iterable) or isinstance(documents, Mapping) or hasattr(documents, "columns"):
            raise TypeError(f"Texts and documents can be explained, got {type(documents).__name__}.")
        specs = [ExplainSpec(_to_document(item, query), ratio) for item in documents]
        return [explanation for (explanation,) in self.explain_specs(specs)]

    def explain_specs(self, specs: Sequence[ExplainSpec]) -> list[tuple[Explanation, ...]]:
        """Explain documents with one pass of each network, each in its own way; all other methods call this one.

        :return: One explanation for each document, or several for a curve, the shortest rationale first.
        """
        for spec in specs:  # all checks come before any network runs
            self.check_query(spec.document)
            if spec.curve and self.ratios is None:
                raise ValueError(f"A curve needs {_RANGE}")
            if spec.ratio is not None:
                self.check_ratio(spec.ratio)
        open_documents = [spec.document for spec in specs if spec.mask is None]
        selected = (
            zip(*extract_with_scores(self.extractor, open_documents), strict=True) if open_documents else iter(())
        )
        pairs = [(spec.mask, None) if spec.mask is not None else next(selected) for spec in specs]
        masks = [self._masks_for(spec, *pair) for spec, pair in zip(specs, pairs, strict=True)]
        # The only way from documents to the predictor: what is cut here is read, and is what the explanation shows.
        rationales = [spec.document.cut(mask) for spec, group in zip(specs, masks, strict=True) for mask in group]
        answers = zip(rationales, self.predictor.predict(rationales), strict=True)
        return [
            tuple(Explanation(spec.document, mask, *next(answers), saliency) for mask in group)
            for spec, group, (_, saliency) in zip(specs, masks, pairs, strict=True)
        ]

    def _masks_for(self, spec: ExplainSpec, mask: Mask, saliency: Saliency | None) -> list[Mask]:
        if spec.curve and self.ratios is not None:
            ratios = curve_ratios(len(spec.document.words), *self.ratios)
        elif spec.ratio is not None:
            ratios = [spec.ratio]
        else:
            return [mask]
        assert saliency is not None
        return [select_masks(with_ratio(self.extractor, ratio).discretizer, [saliency])[0] for ratio in ratios]

    def curve(self, document: Input, query: str | None = None) -> Curve:
        """Explain one document with growing rationales, for a model that was trained for a range of ratios."""
        [points] = self.explain_specs([ExplainSpec(_to_document(document, query), curve=True)])
        return Curve(points)

    def check_ratio(self, ratio: float) -> None:
        """Raise if the predictor was not trained for a ratio."""
        if self.ratios is None:
            raise ValueError(f"Another ratio needs {_RANGE}")
        low, high = self.ratios
        if not is_finite_number(ratio) or not low <= ratio <= high:
            raise ValueError(f"ratio must be in [{low}, {high}], the range this model was trained for, got {ratio!r}.")

    def check_query(self, document: Document) -> None:
        """Raise if a document has no query but the model was trained with queries, or the other way round."""
        if self.needs_query and not document.query:
            problem = f"Document {document.id!r} has no query, but this model was trained with queries."
            raise ValueError(f"{problem} Give one: `query` is a query for a text, and the name of a column for a file.")
        if document.query and not self.needs_query:
            problem = f"Document {document.id!r} has a query, but this model was trained without queries."
            raise ValueError(f"{problem} Leave it out.")

    def explain_file(self, path: str | Path, **columns: Any) -> Iterator[Explanation]:
        """Explain the texts of a file, one batch at a time.

        :param columns: How to read the file, as for training: ``text="review"``, ``query=...``, ``tokenised=True``.
        """
        return self.explain_stream(read_documents(path, from_mapping(DataConfig, columns)))

    def explain_stream(
        self, documents: Iterable[Document], batch_size: int = BATCH_SIZE, ratio: float | None = None
    ) -> Iterator[Explanation]:
        """Explain documents as they come, one batch at a time, so that memory does not grow with their number.

        :param batch_size: How many documents to explain together.
        :param ratio: Share of the words to read, as in :meth:`explain`.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        batch: list[Document] = []
        try:
            for document in documents:
                batch.append(document)
                if len(batch) == batch_size:
                    whole, batch = batch, []
                    yield from self.explain(whole, ratio=ratio)
        except DataError:  # an unreadable row: the documents before it are explained first
            yield from self.explain(batch, ratio=ratio)
            raise
        yield from self.explain(batch, ratio=ratio)

    def save_pretrained(  # type: ignore[override]  # to share a model, push_to_hub
        self,
        save_directory: str | Path,
        *,
        overwrite: bool = False,
        config: None = None,
        model_card_kwargs: Mapping[str, str] | None = None,
    ) -> None:
        """Write the model to a folder, in one move: safetensors, JSON, and a model card.

        :param overwrite: Replace an existing model.
        :param config: Passed by the hub; ignored.
        :param model_card_kwargs: For the card; ``name`` is the model's name, by default that of the folder.
        """
        folder = Path(save_directory)
        report = None if self.report is None else self.report.to_dict()
        about = {"asks": self.needs_query, "settings": dict(self.settings), "report": report, "ratios": self.ratios}
        with atomic_folder(folder, overwrite) as place:
            if self.fingerprints is not None:
                self.fingerprints.save(place / FINGERPRINTS)
            self.generate_model_card(**{"name": folder.name, **(model_card_kwargs or {})}).save(place / CARD)
            if isinstance(self.reader, Path):
                check_model(self.reader.parent, READER)
                shutil.copytree(self.reader, place / READER)
            elif self.reader is not None:
                self.reader.classifier.save(place / READER)
            save_halves(place, self.extractor, self.predictor, about)

    def push_to_hub(self, repo_id: str, **hub: Any) -> str:
        """Upload the model to the hub, with a card that uses its name there.

        The fingerprints stay behind: with them, anybody could test whether a text was in the training data.

        :param hub: Options of the hub: commit_message, private, token, branch, create_pr and the like.
        """
        if self.fingerprints is not None:
            return replace(self, fingerprints=None).push_to_hub(repo_id, **hub)
        return super().push_to_hub(repo_id, **{"model_card_kwargs": {"name": repo_id}, **hub})

    def __reduce__(self) -> tuple[Any, ...]:
        # A network whose attention was recorded cannot be pickled; a saved model's files can.
        with tempfile.TemporaryDirectory() as place:
            self.save_pretrained(Path(place) / "model")
            return from_files, (read_files(Path(place) / "model"), str(self.predictor.classifier.device))

    def generate_model_card(self, *_args: Any, name: str = "model", **_template: Any) -> ModelCard:
        """Write the model card, with what was measured."""
        data = self._hub_mixin_info.model_card_data
        text = card_text(name, self.labels, self.needs_query, self.settings, self.report)
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
        """Load a model from a folder, or from the hub by its name.

        :param device: Where to compute: auto, cpu, cuda, ...
        :param scorer: Makes the scorer, for a model that was trained with a custom one.
        :param hub: Options of the hub: revision, token, cache_dir, local_files_only or force_download.
        """
        folder = find_model(pretrained_model_name_or_path, hub)
        about = check_model(folder, but=READER)  # which only audits read
        predictor = load_predictor(folder / "predictor", device, about["asks"])
        extractor = load_extractor(folder, about, device, scorer)
        with report_damage(folder):
            report = None if about["report"] is None else Report.from_dict(about["report"])
            ratios = None if about["ratios"] is None else tuple(about["ratios"])
            seen = TrainingFingerprints.load(folder / FINGERPRINTS) if FINGERPRINTS in about["files"] else None
        reader = folder / READER if (folder / READER).is_dir() else None
        return cls(extractor, predictor, about["settings"], about["asks"], report, ratios, seen, reader)

    def load_reader(self) -> Predictor | None:
        """Return the independent reader, if there is one; where the model was loaded from a folder, load it."""
        if not isinstance(self.reader, Path):
            return self.reader
        check_model(self.reader.parent, READER)
        reader = load_predictor(self.reader, str(self.predictor.classifier.device), self.needs_query)
        if reader.classifier.labels != self.labels:
            named = ", ".join(reader.classifier.labels)
            raise ModelError(f"{self.reader} answers with {named}, but the model with {', '.join(self.labels)}.")
        return reader


def _to_document(item: object, query: str | None) -> Document:
    if isinstance(item, str):
        return Document.from_text(item, query)
    if type(item) is Document:
        return item
    raise TypeError(f"Texts and documents can be explained, got {type(item).__name__}.")


def from_files(files: Mapping[str, bytes], device: str) -> Rationalizer:
    """Load a model from the files of its folder."""
    with tempfile.TemporaryDirectory() as place:
        write_files(files, Path(place))
        model = Rationalizer.from_pretrained(place, device=device)
        return replace(model, reader=model.load_reader())


def find_model(name: str | Path, hub: Mapping[str, Any]) -> Path:
    """Find a model on this machine, or else on the hub if its name has the form owner/name."""
    folder = Path(name)
    if folder.exists():
        return folder
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", str(name)) is None or folder.parent.exists():
        parent = folder.absolute().parent
        models = sorted(path.parent.name for path in parent.glob(f"*/{MANIFEST}"))
        similar = ", ".join(difflib.get_close_matches(folder.name, models, n=5, cutoff=0.5) or models[:5])
        hint = f"There is no saved model in {parent}. Give a folder that `fresh train` wrote."
        if similar:
            hint = f"Similar names: {similar}. Give one of them, or owner/name for a model on the hub."
        raise ModelError(f"There is no folder {name}. {hint}")
    try:
        return Path(snapshot_download(str(name), **hub))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = f"the model hub did not provide it: {first_line(error)}"
        raise ModelError(f"There is no folder {name}, and {reason}") from error
