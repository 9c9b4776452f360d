"""Uploads in parts.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("file_expires_after", sa.Integer(), nullable=True),
        sa.Column(
            "state",
            sa.Enum("pending", "completed", "cancelled", "expired", name="upload_state"),
            server_default="pending",
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("file_id", sa.Uuid(), nullable=True),
        sa.Column("part_ids", sa.ARRAY(sa.Uuid()), nullable=True),
        sa.CheckConstraint(
            "(state = 'completed') = (file_id IS NOT NULL)", name=op.f("uploads_file_check")
        ),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("uploads_file_id_fkey")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("uploads_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("uploads_pkey")),
    )
    op.create_index(
        "uploads_pending",
        "uploads",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_table(
        "upload_parts",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("upload_id", sa.Uuid(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("presigned", sa.Boolean(), nullable=False),
        sa.Column("storage_key", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["uploads.id"], name=op.f("upload_parts_upload_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("upload_parts_pkey")),
    )
    op.create_index(op.f("upload_parts_upload_id"), "upload_parts", ["upload_id"], unique=False)
