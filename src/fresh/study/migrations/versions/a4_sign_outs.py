"""A study counts sign-outs, which end sessions on the server."""

import sqlalchemy as sa
from alembic import op

revision = "a4"
down_revision = "a3"


def upgrade() -> None:
    """Add the columns."""
    with op.batch_alter_table("annotators") as table:
        table.add_column(sa.Column("sign_outs", sa.Integer, nullable=False, server_default="0"))
    with op.batch_alter_table("study") as table:
        table.add_column(sa.Column("admin_sign_outs", sa.Integer, nullable=False, server_default="0"))
