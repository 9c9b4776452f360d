"""A batch can be paused: its shards leave the index of the line, and nothing else changes.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_LINE: list[str | sa.TextClause] = ["model", sa.text("interactive DESC"), "stamp", "id"]


def upgrade() -> None:
    for table in ("jobs", "shards"):
        op.add_column(
            table, sa.Column("paused", sa.Boolean(), server_default="false", nullable=False)
        )
    _index_line("state = 'queued' AND NOT paused")


def downgrade() -> None:
    _index_line("state = 'queued'")
    for table in ("jobs", "shards"):
        op.drop_column(table, "paused")


def _index_line(where: str) -> None:
    op.drop_index("shards_line", table_name="shards")
    op.create_index("shards_line", "shards", _LINE, postgresql_where=sa.text(where))
