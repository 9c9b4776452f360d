"""Drop folders: objects that become batches by themselves.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drops",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("completion_window", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("drops_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("drops_pkey")),
        sa.UniqueConstraint(
            "tenant_id", "bucket", "prefix", name=op.f("drops_tenant_id_bucket_prefix_key")
        ),
    )
    op.create_table(
        "drop_objects",
        sa.Column("drop_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["drop_id"], ["drops.id"], name=op.f("drop_objects_drop_id_fkey")),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
            name=op.f("drop_objects_job_id_fkey"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("drop_id", "key", "etag", name=op.f("drop_objects_pkey")),
        sa.UniqueConstraint("job_id", name=op.f("drop_objects_job_id_key")),
    )
    op.create_index(
        "drop_objects_open",
        "drop_objects",
        ["job_id"],
        unique=False,
        postgresql_where=sa.text("settled_at IS NULL"),
    )
