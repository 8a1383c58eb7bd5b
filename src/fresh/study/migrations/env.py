"""Alembic reads this file to bring a database up to date, over the connection that it is handed."""

from alembic import context

from fresh.study.schema import Table

context.configure(connection=context.config.attributes["connection"], target_metadata=Table.metadata)
context.run_migrations()
