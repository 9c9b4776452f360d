"""A lapsed beat is a death only if the database was there to be told otherwise.

Revision ID: 0030
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "workers", sa.Column("resigned", sa.Boolean(), server_default="false", nullable=False)
    )
    op.create_table(
        "roll_call",
        sa.Column("id", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("called_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("away_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("away_until", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("id", name=op.f("roll_call_single_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("roll_call_pkey")),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )


def downgrade() -> None:
    op.drop_table("roll_call")
    op.drop_column("workers", "resigned")
