"""A worker whose exit code was collected has died, whatever the roll says of its beat.

Revision ID: 0032
Revises: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "workers", sa.Column("died", sa.Boolean(), server_default="false", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("workers", "died")
