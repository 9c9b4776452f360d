"""Files that lie in buckets of tenants: inputs by reference, outputs under a prefix.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tenants",
        sa.Column("allowed_prefixes", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
    )
    op.add_column("files", sa.Column("bucket", sa.Text(), nullable=True))
    op.add_column("files", sa.Column("etag", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("files_pinned_check"), "files", "(bucket IS NULL) = (etag IS NULL)"
    )
    op.add_column("jobs", sa.Column("output_prefix", sa.Text(), nullable=True))
