"""The tables of the first version; new databases get their tables from the schema."""

revision = "a1"
down_revision = None
