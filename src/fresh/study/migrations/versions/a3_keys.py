"""A study stores its signing key and the hash of its admin secret; indexes on items."""

import sqlalchemy as sa
from alembic import op

revision = "a3"
down_revision = "a2"


def upgrade() -> None:
    """Add the columns."""
    with op.batch_alter_table("study") as table:
        table.add_column(sa.Column("key", sa.String(64)))
        table.add_column(sa.Column("admin_salt", sa.String(64)))
        table.add_column(sa.Column("admin_code", sa.String(128)))
    op.create_index("items_by_kind", "items", ["kind"])
    op.create_index("items_by_plan", "items", ["document", "condition"])
