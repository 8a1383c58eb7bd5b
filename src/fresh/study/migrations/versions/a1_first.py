"""The first tables of a study."""

import sqlalchemy as sa
from alembic import op

revision = "a1"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "study",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("arrivals", sa.Integer, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("text", sa.Integer, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("document", sa.Integer, sa.ForeignKey("documents.id")),
        sa.Column("condition", sa.Integer),
        sa.Column("words", sa.JSON, nullable=False),
        sa.Column("query", sa.JSON, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("asked_confidence", sa.Integer),
        sa.Column("asked_readability", sa.Integer),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("taken", sa.Integer, nullable=False),
        sa.CheckConstraint("taken >= 0 AND taken <= wanted", name="not_beyond_plan"),
    )
    _create_annotators_and_answers()


def _create_annotators_and_answers() -> None:
    op.create_table(
        "annotators",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("salt", sa.String(64), nullable=False),
        sa.Column("code", sa.String(128), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("arrival", sa.Integer),
        sa.Column("consented", sa.BigInteger),
    )
    op.create_table(
        "assignments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False, index=True),
        sa.Column("item", sa.Integer, sa.ForeignKey("items.id"), nullable=False, index=True),
        sa.Column("document", sa.Integer, sa.ForeignKey("documents.id"), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("annotator", "document", name="no_document_twice"),
    )
    assignment = sa.Column("assignment", sa.Integer, sa.ForeignKey("assignments.id"), nullable=False, unique=True)
    op.create_table("answers", *_answer_columns(), assignment)
    op.create_table(
        "answers_aside",
        *_answer_columns(),
        sa.Column("annotator", sa.Integer, sa.ForeignKey("annotators.id"), nullable=False),
        sa.Column("item", sa.Integer, sa.ForeignKey("items.id"), nullable=False),
        sa.UniqueConstraint("annotator", "item", name="once"),
    )


def _answer_columns() -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("confidence", sa.Integer, nullable=False),
        sa.Column("readability", sa.Integer, nullable=False),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("confidence BETWEEN 1 AND 4", name="confidence_on_scale"),
        sa.CheckConstraint("readability BETWEEN 1 AND 5", name="readability_on_scale"),
    ]
