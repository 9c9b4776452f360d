"""Endpoints that are told of events on their own, with secrets and a breaker.

A delivery says whose it is and for which endpoint, so that one event may go to several.

Revision ID: 0020
Revises: 0013
"""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_endpoints()
    _create_targets()
    op.alter_column("events", "job_id", nullable=True)
    op.add_column("deliveries", sa.Column("tenant_id", sa.Uuid(), nullable=True))
    op.execute("""
        UPDATE deliveries d SET tenant_id = j.tenant_id
          FROM events e JOIN jobs j ON j.id = e.job_id WHERE e.id = d.event_id
    """)
    op.alter_column("deliveries", "tenant_id", nullable=False)
    op.add_column("deliveries", sa.Column("endpoint_id", sa.Uuid(), nullable=True))
    op.add_column(
        "deliveries", sa.Column("test", sa.Boolean(), server_default="false", nullable=False)
    )
    op.add_column(
        "deliveries",
        sa.Column("attempts_before", sa.Integer(), server_default="0", nullable=False),
    )
    _constrain_deliveries()


def _create_endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("event_types", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("old_secret", sa.LargeBinary(), nullable=True),
        sa.Column("old_secret_until", sa.DateTime(timezone=True), nullable=True),
        _now("created_at"),
        _now("updated_at"),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(old_secret IS NULL) = (old_secret_until IS NULL)",
            name=op.f("webhook_endpoints_rotation_check"),
        ),
        sa.CheckConstraint(
            "(disabled_at IS NULL) = (disabled_reason IS NULL)",
            name=op.f("webhook_endpoints_disabled_check"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("webhook_endpoints_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("webhook_endpoints_pkey")),
    )
    op.create_index(
        op.f("webhook_endpoints_tenant_id_created_at_id"),
        "webhook_endpoints",
        ["tenant_id", "created_at", "id"],
    )


def _create_targets() -> None:
    op.create_table(
        "webhook_targets",
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        _now("failing_since"),
        sa.Column("open_until", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("webhook_targets_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "url", name=op.f("webhook_targets_pkey")),
    )


def _now(name: str) -> sa.Column[datetime]:
    return sa.Column(
        name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
    )


def _constrain_deliveries() -> None:
    op.create_foreign_key(
        op.f("deliveries_tenant_id_fkey"), "deliveries", "tenants", ["tenant_id"], ["id"]
    )
    op.create_foreign_key(
        op.f("deliveries_endpoint_id_fkey"),
        "deliveries",
        "webhook_endpoints",
        ["endpoint_id"],
        ["id"],
    )
    op.drop_constraint(op.f("deliveries_event_id_url_key"), "deliveries", type_="unique")
    op.create_unique_constraint(
        op.f("deliveries_event_id_endpoint_id_key"),
        "deliveries",
        ["event_id", "endpoint_id"],
        postgresql_nulls_not_distinct=True,
    )
    op.create_index(
        "deliveries_waiting",
        "deliveries",
        ["tenant_id", "url"],
        postgresql_where=sa.text("state = 'pending' AND owner IS NULL"),
    )
    op.create_index(
        op.f("deliveries_tenant_id_created_at_id"), "deliveries", ["tenant_id", "created_at", "id"]
    )
    op.create_index(
        op.f("deliveries_endpoint_id_created_at"), "deliveries", ["endpoint_id", "created_at"]
    )


def downgrade() -> None:
    op.drop_index(op.f("deliveries_endpoint_id_created_at"), table_name="deliveries")
    op.drop_index(op.f("deliveries_tenant_id_created_at_id"), table_name="deliveries")
    op.drop_index("deliveries_waiting", table_name="deliveries")
    op.execute("DELETE FROM deliveries WHERE endpoint_id IS NOT NULL")
    op.execute("DELETE FROM events WHERE job_id IS NULL")
    op.drop_constraint(op.f("deliveries_event_id_endpoint_id_key"), "deliveries", type_="unique")
    op.create_unique_constraint(
        op.f("deliveries_event_id_url_key"), "deliveries", ["event_id", "url"]
    )
    for column in ("attempts_before", "test", "endpoint_id", "tenant_id"):
        op.drop_column("deliveries", column)
    op.alter_column("events", "job_id", nullable=False)
    op.drop_table("webhook_targets")
    op.drop_table("webhook_endpoints")
