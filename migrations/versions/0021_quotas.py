"""What a tenant may have at one time: requests, tokens, batches, bytes, calls a second.

Revision ID: 0021
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0030"
branch_labels = None
depends_on = None

_LIMITS = ("max_queued_requests", "max_queued_tokens", "max_active_batches", "max_storage_bytes")
_OPEN = "state NOT IN ('completed', 'failed', 'cancelled', 'expired')"


def upgrade() -> None:
    for name in _LIMITS:
        op.add_column("tenants", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("tenants", sa.Column("max_requests_per_second", sa.Float(), nullable=True))
    op.create_check_constraint(op.f("tenants_rate_check"), "tenants", "max_requests_per_second > 0")
    op.create_table(
        "rate_buckets",
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("level", sa.Float(), nullable=False),
        sa.Column(
            "filled_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("rate_buckets_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("rate_buckets_pkey")),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.add_column(
        "jobs", sa.Column("reserved_requests", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column(
        "jobs", sa.Column("reserved_tokens", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.create_index(
        "jobs_reserved",
        "jobs",
        ["tenant_id", "kind"],
        postgresql_include=["reserved_requests", "reserved_tokens"],
        postgresql_where=sa.text(_OPEN),
    )


def downgrade() -> None:
    op.drop_index("jobs_reserved", table_name="jobs")
    op.drop_column("jobs", "reserved_tokens")
    op.drop_column("jobs", "reserved_requests")
    op.drop_table("rate_buckets")
    op.drop_constraint(op.f("tenants_rate_check"), "tenants", type_="check")
    for name in (*_LIMITS, "max_requests_per_second"):
        op.drop_column("tenants", name)
