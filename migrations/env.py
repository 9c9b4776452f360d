"""Alembic's entry: runs the migrations over the connection that `migrations.upgrade` opened."""

from alembic import context
from sqlalchemy import text

from jobs.models import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    compare_server_default=True,
    transaction_per_migration=True,
)
# A migration that cannot have its lock gives up, rather than queue with all traffic behind it.
connection.execute(text("SET lock_timeout = '5s'"))
connection.commit()
with context.begin_transaction():
    context.run_migrations()
