"""Batches that go on from an earlier one, and by what rows of two batches are known to be equal.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("retry_of", sa.Uuid(), nullable=True))
    op.add_column("jobs", sa.Column("reuse_from", sa.Uuid(), nullable=True))
    op.add_column("requests", sa.Column("body_digest", sa.Uuid(), nullable=True))


def downgrade() -> None:
    op.drop_column("requests", "body_digest")
    op.drop_column("jobs", "reuse_from")
    op.drop_column("jobs", "retry_of")
