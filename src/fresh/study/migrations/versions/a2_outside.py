"""Annotators have their name on a crowd platform."""

import sqlalchemy as sa
from alembic import op

revision = "a2"
down_revision = "a1"


def upgrade() -> None:
    """Add the column."""
    with op.batch_alter_table("annotators") as table:
        table.add_column(sa.Column("outside", sa.String))
        table.create_unique_constraint("annotators_outside_key", ["outside"])
