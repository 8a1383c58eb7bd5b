"""JSON bodies of requests and responses."""

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fresh.document import Document, Mask, split_text
from fresh.rationalizer import ExplainSpec
from fresh.serving.config import MAX_CHARACTERS, MAX_TEXTS, MAX_WORDS
from fresh.serving.models import ServedModel
from fresh.text import split_words
from fresh.web.errors import Problem

Text = Annotated[str, Field(description="Raw text.", examples=["A lovely, funny film with a dull ending."])]


class ExplainRequest(BaseModel):
    """What to explain: one of text, texts and words."""

    # Strict: otherwise 1 and "yes" would pass for a flag of `kept`.
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Text | None = None
    texts: list[str] | None = Field(None, description=f"Several texts, at most {MAX_TEXTS}.")
    words: list[str] | None = Field(None, description="The words of a text, with a flag for each in kept.")
    kept: list[bool] | None = Field(None, description="Read exactly the words with true here.")
    query: str | None = Field(None, description="The query, for a model that was trained with queries.")
    ratio: float | None = Field(None, description="Share of the words to read, for a model with a range of ratios.")
    scores: bool = Field(False, description="Also return all words and their scores.")

    @property
    def n_characters(self) -> int:
        """Length of all texts."""
        return sum(map(len, (self.text or "", self.query or "", *(self.texts or ()), *(self.words or ()))))

    def specs(self, served: ServedModel) -> list[ExplainSpec]:
        """Return the texts to explain, or refuse the request."""
        names = [name for name in ("text", "texts", "words") if getattr(self, name) is not None]
        if len(names) != 1:
            found = "none of them" if not names else " and ".join(names)
            raise Problem(422, f"A request must have one of text, texts and words, got {found}.")
        self._check_query(served)
        if (self.kept is None) != (self.words is None):
            raise Problem(422, "words and kept go together: give one flag for each word.")
        if self.words is not None and self.kept is not None:
            return [self._masked_spec(self.words, self.kept)]
        if self.ratio is not None:
            served.check_ratio(self.ratio)
        if self.text is not None:
            return [ExplainSpec(self._document(self.text, "text"), self.ratio)]
        texts = self.texts or []
        if not 1 <= len(texts) <= MAX_TEXTS:
            found = f"texts must hold 1 to {MAX_TEXTS} texts, got {len(texts):,}."
            raise Problem(422, f"{found} For more, upload a file as a job.")
        documents = [self._document(text, f"text-{number}") for number, text in enumerate(texts, start=1)]
        return [ExplainSpec(document, self.ratio) for document in documents]

    def curve_spec(self, served: ServedModel) -> ExplainSpec:
        """Return the text to explain at every length, or refuse the request."""
        if self.text is None or self.ratio is not None or self.texts or self.words:
            raise Problem(422, "A curve shows all ratios of one text: give text, and query if the model needs one.")
        [spec] = self.specs(served)
        return ExplainSpec(spec.document, curve=True)

    def _check_query(self, served: ServedModel) -> None:
        if self.query is not None:
            _check_text(self.query, "query")
        if served.model.needs_query and not (self.query and split_words(self.query)):
            raise Problem(422, f"Model {served.name!r} was trained with queries: give one as query.")
        if self.query and not served.model.needs_query:
            raise Problem(422, f"Model {served.name!r} was trained without queries: leave query out.")

    def _document(self, text: str, id: str) -> Document:
        _check_text(text, id)
        try:
            return Document.from_text(text, self.query, id)
        except ValueError as error:
            raise Problem(422, f"The {id} has no words. Give a text with at least one.") from error

    def _masked_spec(self, words: list[str], kept: list[bool]) -> ExplainSpec:
        if len(words) != len(kept):
            raise Problem(422, f"kept must have one flag for each word, got {len(kept):,} for {len(words):,}.")
        if self.ratio is not None:
            raise Problem(422, "kept and ratio both choose words: leave one of them out.")
        if not words or not all(map(str.strip, words)):
            raise Problem(422, "words must hold at least one word, and no empty ones.")
        if len(words) > MAX_WORDS:
            raise Problem(422, f"words must hold at most {MAX_WORDS:,} words, got {len(words):,}.")
        _check_text(" ".join(words), "text of all words")
        query = split_text(self.query)[1] if self.query else ()
        return ExplainSpec(Document.from_words(words, query, "text"), mask=Mask(np.array(kept, dtype=np.bool_)))


def _check_text(text: str, id: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise Problem(422, f"The {id} has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}. Send it in parts.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem(422, f"The {id} is not valid Unicode ({error.reason}). Send no lone surrogates.") from error


class Span(BaseModel):
    """A run of words that were read."""

    start: int = Field(description="First character, counted in Unicode code points.")
    end: int = Field(description="Character after the last.")
    text: str


class Record(BaseModel):
    """An explanation, as `fresh explain` writes it."""

    id: str
    label: str
    probability: float
    probabilities: dict[str, float]
    rationale: list[Span]
    ratio: float = Field(description="Share of the words that were read.")
    words: list[str] | None = Field(None, description="All words, if scores were requested.")
    scores: list[float] | None = Field(None, description="The score of each word.")


class CurveRecord(BaseModel):
    """Explanations of one text at growing lengths."""

    points: list[Record] = Field(description="From the shortest rationale to the longest.")
    minimal: int = Field(description="The point from which on the label is that of the longest rationale.")


class ModelRecord(BaseModel):
    """What a client must know to use a model."""

    name: str
    labels: list[str]
    asks: bool = Field(description="Whether each text needs a query.")
    ratios: list[float] | None = Field(description="Lowest and highest ratio, if the model has a range.")
    predictor_sha256: str = Field(description="Digest of the predictor, as in certificates.")


class JobRecord(BaseModel):
    """The state of an uploaded file."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)  # a response has all fields

    id: str
    file: str
    model: str
    ratio: float | None = Field(description="Share of the words to read, if given.")
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    rows: int = Field(default=0, description="Texts in the file.")
    done: int = Field(default=0, description="Texts explained so far.")
    problem: str = Field(default="", description="Why the job failed; empty if it did not.")
    left_out: str = Field(default="", description="Which rows were left out, and why; empty if none.")


class Health(BaseModel):
    """The state of a server."""

    status: str
    models: dict[str, str]
