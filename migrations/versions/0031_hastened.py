"""A job whose deadline is in danger is pulled forward, once.

Revision ID: 0031
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("hastened", sa.Boolean(), server_default="false", nullable=False)
    )
    op.create_index(
        "jobs_unhurried",
        "jobs",
        ["expires_at"],
        postgresql_where=sa.text("state = 'in_progress' AND NOT interactive AND NOT hastened"),
    )


def downgrade() -> None:
    op.drop_index("jobs_unhurried", table_name="jobs")
    op.drop_column("jobs", "hastened")
