"""Where in virtual time a tenant's work ends that was pulled forward for its deadlines.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "fair_shares", sa.Column("last_hastened", sa.Double(), server_default="0", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("fair_shares", "last_hastened")
