"""Ended batches can be deleted: rows of results and segments go without a scan for each.

A foreign key without an index on its own side makes every deletion of what it names read the whole
table.  These two would need an index on the largest table, and hold by construction: the rows are
written by the transaction that writes, or has locked, what they name.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "jobs_deleted", "jobs", ["id"], postgresql_where=sa.text("deleted_at IS NOT NULL")
    )
    op.drop_constraint(op.f("results_segment_id_fkey"), "results", type_="foreignkey")
    op.drop_constraint(op.f("segments_shard_id_fkey"), "segments", type_="foreignkey")


def downgrade() -> None:
    op.create_foreign_key(
        op.f("segments_shard_id_fkey"), "segments", "shards", ["shard_id"], ["id"]
    )
    op.create_foreign_key(
        op.f("results_segment_id_fkey"), "results", "segments", ["segment_id"], ["id"]
    )
    op.drop_index("jobs_deleted", table_name="jobs")
    op.drop_column("jobs", "deleted_at")
