"""A deleted batch's row outlives what it held, as the cursor of a list that is being paged through.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_OLD, _NEW = "deleted_at IS NOT NULL", "deleted_at IS NOT NULL AND purged_at IS NULL"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("purged_at", sa.DateTime(timezone=True), nullable=True))
    op.drop_index("jobs_deleted", table_name="jobs")
    op.create_index("jobs_deleted", "jobs", ["id"], postgresql_where=sa.text(_NEW))
    op.create_index(
        "jobs_purged", "jobs", ["purged_at"], postgresql_where=sa.text("purged_at IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("jobs_purged", table_name="jobs")
    op.drop_index("jobs_deleted", table_name="jobs")
    op.create_index("jobs_deleted", "jobs", ["id"], postgresql_where=sa.text(_OLD))
    op.drop_column("jobs", "purged_at")
