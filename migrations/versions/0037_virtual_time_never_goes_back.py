"""How far each queue's virtual time has come: it never goes back.

Revision ID: 0037
Revises: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "fair_queues", sa.Column("present", sa.Double(), server_default="0", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("fair_queues", "present")
