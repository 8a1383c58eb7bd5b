"""The database tables of a study. A change here needs a migration in migrations/versions."""

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fresh.study.answers import SCALES


class Base(DeclarativeBase):
    """Base of all tables."""

    type_annotation_map = {dict[str, object]: JSON, list[str]: JSON}  # noqa: RUF012  # SQLAlchemy reads a plain dict


class StudyRow(Base):
    """The study; a database holds one."""

    __tablename__ = "study"

    id: Mapped[int] = mapped_column(primary_key=True)
    about: Mapped[dict[str, object]]
    paused: Mapped[bool] = mapped_column(default=False)
    arrivals: Mapped[int] = mapped_column(default=0)  # annotators who have started
    key: Mapped[str | None] = mapped_column(String(64))  # signs sessions and item names; made at its first use
    admin_salt: Mapped[str | None] = mapped_column(String(64))
    admin_code: Mapped[str | None] = mapped_column(String(128))  # hash of the secret of the admin page
    admin_sign_outs: Mapped[int] = mapped_column(default=0)  # each ends all earlier sessions


class DocumentRow(Base):
    """A document of the sample."""

    __tablename__ = "documents"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    label: Mapped[str]
    text: Mapped[int]  # number of its text; several documents may share one


class ItemRow(Base):
    """Something to show: a document in a condition, a practice item, an attention check, or an example."""

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
    taken: Mapped[int] = mapped_column(default=0)  # annotators who hold it or have answered it


class AnnotatorRow(Base):
    """Somebody with a sign-in code, or from a crowd platform."""

    __tablename__ = "annotators"

    id: Mapped[int] = mapped_column(primary_key=True)
    salt: Mapped[str] = mapped_column(String(64))
    code: Mapped[str] = mapped_column(String(128))  # hash of the sign-in code
    outside: Mapped[str | None] = mapped_column(unique=True)  # their name on a crowd platform
    state: Mapped[str] = mapped_column(String(10), default="active")
    arrival: Mapped[int | None]
    consented: Mapped[int | None] = mapped_column(BigInteger)
    sign_outs: Mapped[int] = mapped_column(default=0)  # each ends all earlier sessions


class AssignmentRow(Base):
    """An item that an annotator was given. The rows record what they have seen, including what they gave back."""

    __tablename__ = "assignments"
    # The database itself refuses what no code path may do: showing somebody a document in two conditions.
    __table_args__ = (UniqueConstraint("annotator", "document", name="no_document_twice"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.id"), index=True)
    item: Mapped[int] = mapped_column(ForeignKey("items.id"), index=True)
    document: Mapped[int] = mapped_column(ForeignKey("documents.id"))
    # open; answered; released (anybody may get it, the annotator again too); or seen (in another tool, unanswered)
    state: Mapped[str] = mapped_column(String(10))
    at: Mapped[int] = mapped_column(BigInteger)


class _AnswerColumns:
    """An answer; times are in milliseconds, points in time since 1970."""

    id: Mapped[int] = mapped_column(primary_key=True)
    label: Mapped[str]
    confidence: Mapped[int]
    readability: Mapped[int]
    milliseconds: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[int] = mapped_column(BigInteger)


def _scale_constraints() -> list[CheckConstraint]:
    return [CheckConstraint(f"{name} BETWEEN 1 AND {len(steps)}", f"{name}_on_scale") for name, steps in SCALES.items()]


class AnswerRow(_AnswerColumns, Base):
    """An answer to a real item; at most one for each assignment."""

    __tablename__ = "answers"
    __table_args__ = tuple(_scale_constraints())

    assignment: Mapped[int] = mapped_column(ForeignKey("assignments.id"), unique=True)


class PracticeAnswerRow(_AnswerColumns, Base):
    """An answer to a practice item or an attention check; it never counts as a result."""

    __tablename__ = "answers_aside"
    __table_args__ = (*_scale_constraints(), UniqueConstraint("annotator", "item", name="once"))

    annotator: Mapped[int] = mapped_column(ForeignKey("annotators.id"))
    item: Mapped[int] = mapped_column(ForeignKey("items.id"))
