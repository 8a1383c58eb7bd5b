"""What is sent to a model and what comes back, as JSON."""

from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fresh.document import Document, Mask, words_at
from fresh.serving.models import Served
from fresh.serving.question import Question
from fresh.text import split_words
from fresh.web.errors import Problem

MOST_CHARACTERS = 100_000
"""Of a text."""
MOST_TEXTS = 64
"""Of a request."""
MOST_WORDS = 50_000
"""Of words that are given one by one."""

Text = Annotated[str, Field(description="Raw text.", examples=["A lovely, funny film with a dull ending."])]


class Asked(BaseModel):
    """What is asked: one of text, texts and words."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Text | None = None
    texts: list[str] | None = Field(None, description=f"Several texts, at most {MOST_TEXTS}.")
    words: list[str] | None = Field(None, description="Words as they are, with a flag for each in kept.")
    kept: list[bool] | None = Field(None, description="Read exactly the words that have true here.")
    query: str | None = Field(None, description="What is asked about the text, for a model that asks.")
    ratio: float | None = Field(None, description="Share of the words to read, for a model with a range of ratios.")
    scores: bool = Field(False, description="Also give all words, and the scores that the rationale was cut from.")

    @property
    def n_characters(self) -> int:
        """How much text it brings."""
        return sum(map(len, (self.text or "", self.query or "", *(self.texts or ()), *(self.words or ()))))

    def questions(self, served: Served) -> list[Question]:
        """Make questions of it for a model, or say what is wrong."""
        given = [name for name in ("text", "texts", "words") if getattr(self, name) is not None]
        if len(given) != 1:
            found = "none of them" if not given else " and ".join(given)
            raise Problem(422, f"A request has one of text, texts and words, got {found}.")
        _check_query(served, self.query)
        if (self.kept is None) != (self.words is None):
            raise Problem(422, "words and kept go together: one flag for each word that is given.")
        if self.words is not None and self.kept is not None:
            return [self.held(self.words, self.kept)]
        if self.ratio is not None:
            check_ratio(served, self.ratio)
        if self.text is not None:
            return [Question(self.document(self.text, "text"), self.ratio)]
        texts = self.texts or []
        if not 1 <= len(texts) <= MOST_TEXTS:
            raise Problem(
                422, f"texts holds 1 to {MOST_TEXTS} texts, got {len(texts):,}. For more, upload a file as a job."
            )
        ids = [f"text-{number}" for number in range(1, len(texts) + 1)]
        return [Question(self.document(text, id), self.ratio) for text, id in zip(texts, ids, strict=True)]

    def one(self, served: Served) -> Question:
        """Make the question about one raw text, for every length."""
        if self.text is None or self.ratio is not None or self.texts or self.words:
            raise Problem(
                422, "A curve goes through all ratios of one text: give text, and query for a model that asks."
            )
        [question] = self.questions(served)
        return question

    def document(self, text: str, id: str) -> Document:
        """Split a text that has words and is not too long."""
        _check_text(text, id)
        try:
            return Document.from_text(text, self.query, id)
        except ValueError as error:
            raise Problem(422, f"The {id} has no words. Give a text with at least one.") from error

    def held(self, words: list[str], kept: list[bool]) -> Question:
        """Take words as they are, with the mask that is held."""
        if len(words) != len(kept):
            raise Problem(422, f"kept has {len(kept):,} flags for {len(words):,} words. Give one for each word.")
        if self.ratio is not None:
            raise Problem(422, "ratio says how many words are chosen, and kept which ones: leave either out.")
        if not words or not all(map(str.strip, words)):
            raise Problem(422, "words must hold at least one word, and no empty one.")
        if len(words) > MOST_WORDS:
            raise Problem(422, f"words holds {len(words):,} words; at most {MOST_WORDS:,} are taken.")
        _check_text(" ".join(words), "text of all words")
        query = words_at(self.query, split_words(self.query)) if self.query else ()
        return Question(Document.from_words(words, query, "text"), mask=Mask(np.array(kept, dtype=np.bool_)))


def _check_text(text: str, id: str) -> None:
    """Refuse a text that is too long for a request, and half characters, which cannot be written down."""
    if len(text) > MOST_CHARACTERS:
        raise Problem(
            422, f"The {id} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are taken. Send parts of it."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem(422, f"The {id} holds half a character ({error.reason}). Send whole ones.") from error


def _check_query(served: Served, query: str | None) -> None:
    """Refuse a query where none was trained, and the other way round."""
    if query is not None:
        _check_text(query, "query")
    asked = bool(query and split_words(query))
    if served.model.needs_query and not asked:
        raise Problem(422, f"Model {served.name!r} was trained with queries: give one as query beside the text.")
    if query and not served.model.needs_query:
        raise Problem(422, f"Model {served.name!r} was trained without queries: leave query out.")


def check_ratio(served: Served, ratio: float) -> None:
    """Refuse a ratio that a model was not trained for."""
    try:
        served.model.check_ratio(ratio)
    except ValueError as error:
        raise Problem(422, str(error)) from error


class Span(BaseModel):
    """A run of words that was read."""

    start: int = Field(description="First character in the text; counted as Unicode code points.")
    end: int = Field(description="Character after the last.")
    text: str


class Record(BaseModel):
    """An answer with the words it was made from, as `fresh explain` writes it."""

    id: str
    label: str
    probability: float
    probabilities: dict[str, float]
    rationale: list[Span]
    ratio: float = Field(description="Share of the words that was read.")
    words: list[str] | None = Field(None, description="All words, if scores were asked for.")
    scores: list[float] | None = Field(None, description="The scores that the rationale was cut from, one a word.")


class CurveRecord(BaseModel):
    """Answers from growing rationales of one text."""

    points: list[Record] = Field(description="From the shortest rationale to the longest.")
    minimal: int = Field(description="The point from which on the answer stays that of the longest rationale.")


class About(BaseModel):
    """What a client must know to ask a model."""

    name: str
    labels: list[str]
    asks: bool = Field(description="Whether each text comes with a query.")
    ratios: list[float] | None = Field(description="Lowest and highest share of words it can read, if not one alone.")
    predictor_sha256: str = Field(description="Digest of the predictor, as certificates name it.")
