"""Alembic runs this file to migrate a database, over the connection that `store` passes in."""

from alembic import context

from fresh.study.schema import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
