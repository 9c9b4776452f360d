"""What a shard's input is to be, and since when it is seen not to be so.

Revision ID: 0036
Revises: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("shards", sa.Column("input_sha256", sa.Text(), nullable=True))
    op.add_column("shards", sa.Column("damaged_since", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("shards", "damaged_since")
    op.drop_column("shards", "input_sha256")
