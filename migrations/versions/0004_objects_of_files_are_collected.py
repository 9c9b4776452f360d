"""When a deleted or expired file's object is gone.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("files", sa.Column("collected_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "files_collectable",
        "files",
        [sa.text("LEAST(deleted_at, expires_at)")],
        unique=False,
        postgresql_where=sa.text("collected_at IS NULL AND bucket IS NULL"),
    )
