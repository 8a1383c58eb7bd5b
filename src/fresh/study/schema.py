"""The tables of a study. A change here needs a migration, see migrations/versions."""

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fresh.study.answer import CONFIDENCE, READABILITY


class Table(DeclarativeBase):
    """Has all tables."""

    type_annotation_map = {dict[str, object]: JSON, list[str]: JSON}  # noqa: RUF012  # SQLAlchemy's own way


class StudyRow(Table):
    """The study itself; there is one in a database."""

    __tablename__ = "study"

    id: Mapped[int] = mapped_column(primary_key=True)
    about: Mapped[dict[str, object]]
    paused: Mapped[bool] = mapped_column(default=False)
    arrivals: Mapped[int] = mapped_column(default=0)
    """People who have begun."""
    key: Mapped[str | None] = mapped_column(String(64))
    """What sessions are signed with; made when the study is served for the first time."""
    admin_salt: Mapped[str | None] = mapped_column(String(64))
    admin_code: Mapped[str | None] = mapped_column(String(128))
    """The secret of the admin page, hashed."""
    admin_sign_outs: Mapped[int] = mapped_column(default=0)
    """How often somebody signed out of the admin page; sessions from before have ended."""


class DocumentRow(Table):
    """A document of the sample."""

    __tablename__ = "documents"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    label: Mapped[str]
    text: Mapped[int]
    """Number of its text; several documents may ask about one."""


class ItemRow(Table):
    """What is shown: a document in a condition, a practice item, an attention check, or an example."""

    __tablename__ = "items"
    __table_args__ = (
        CheckConstraint("taken >= 0 AND taken <= wanted", name="not_beyond_plan"),
        Index("items_by_kind", "kind"),
        Index("items_by_plan", "document", "condition"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(10))
    document: Mapped[int | None] = mapped_column(ForeignKey("documents.id"))
    condition: Mapped[int | None]
    words: Mapped[list[str]]
    query: Mapped[list[str]]
    label: Mapped[str]
    asked_confidence: Mapped[int | None]
    asked_readability: Mapped[int | None]
    wanted: Mapped[int] = mapped_column(default=0)
    taken: Mapped[int] = mapped_column(default=0)
    """People who have it or have answered it."""


class AnnotatorRow(Table):
    """Somebody who was invited."""

    __tablename__ = "annotators"

    id: Mapped[int] = mapped_column(primary_key=True)
    salt: Mapped[str] = mapped_column(String(64))
    code: Mapped[str] = mapped_column(String(128))
    """The sign-in code, hashed."""
    outside: Mapped[str | None] = mapped_column(unique=True)
    """What a crowd platform calls them."""
    state: Mapped[str] = mapped_column(String(10), default="active")
    arrival: Mapped[int | None]
    consented: Mapped[int | None] = mapped_column(BigInteger)
    sign_outs: Mapped[int] = mapped_column(default=0)
    """How often they signed out; sessions from before have ended."""


class AssignmentRow(Table):
    """An item that was given to somebody. The rows say what they have seen, also of what they gave back."""

    __tablename__ = "assignments"
    __table_args__ = (UniqueConstraint("annotator", "document", name="no_document_twice"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.id"), index=True)
    item: Mapped[int] = mapped_column(ForeignKey("items.id"), index=True)
    document: Mapped[int] = mapped_column(ForeignKey("documents.id"))
    state: Mapped[str] = mapped_column(String(10))
    """open; answered; released: somebody else may have it, else they get it again; or seen: elsewhere, and that is
    all."""
    at: Mapped[int] = mapped_column(BigInteger)


class _Given:
    """What somebody answered; times are milliseconds, since 1970 where they are points in time."""

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str]
    confidence: Mapped[int]
    readability: Mapped[int]
    milliseconds: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[int] = mapped_column(BigInteger)


def _on_scales() -> tuple[CheckConstraint, CheckConstraint]:
    """Keep ratings on their scales, whoever writes them."""
    return (
        CheckConstraint(f"confidence BETWEEN 1 AND {len(CONFIDENCE)}", name="confidence_on_scale"),
        CheckConstraint(f"readability BETWEEN 1 AND {len(READABILITY)}", name="readability_on_scale"),
    )


class AnswerRow(_Given, Table):
    """An answer to a real item; one for each assignment."""

    __tablename__ = "answers"
    __table_args__ = _on_scales()

    assignment: Mapped[int] = mapped_column(ForeignKey("assignments.id"), unique=True)


class AsideRow(_Given, Table):
    """An answer to a practice item or an attention check, which never counts as a result."""

    __tablename__ = "answers_aside"
    __table_args__ = (*_on_scales(), UniqueConstraint("annotator", "item", name="once"))

    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.id"))
    item: Mapped[int] = mapped_column(ForeignKey("items.id"))
