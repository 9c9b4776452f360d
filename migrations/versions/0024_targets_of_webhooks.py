"""Webhooks are counted and rested by target: an endpoint, or the host of a job's own URL.

The claim walks from target to target along an index, and looks at the head of each one's line.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_WAITING = sa.text("state = 'pending' AND owner IS NULL")


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("target", sa.Text(), nullable=True))
    op.execute("""
        UPDATE deliveries
           SET target = coalesce(CAST(endpoint_id AS text), substring(url FROM '^[a-z]+://[^/?#]*'))
    """)
    op.alter_column("deliveries", "target", nullable=False)
    op.drop_index("deliveries_waiting", table_name="deliveries")
    op.create_index(
        "deliveries_waiting",
        "deliveries",
        ["tenant_id", "target", "due_at"],
        postgresql_where=_WAITING,
    )
    op.execute("DELETE FROM webhook_targets")  # counted anew, by target
    op.alter_column("webhook_targets", "url", new_column_name="target")


def downgrade() -> None:
    op.execute("DELETE FROM webhook_targets")
    op.alter_column("webhook_targets", "target", new_column_name="url")
    op.drop_index("deliveries_waiting", table_name="deliveries")
    op.create_index(
        "deliveries_waiting", "deliveries", ["tenant_id", "url"], postgresql_where=_WAITING
    )
    op.drop_column("deliveries", "target")
