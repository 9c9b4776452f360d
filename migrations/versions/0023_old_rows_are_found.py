"""Indexes by which rows whose time is over are found: kept answers, and samples of webhooks.

Revision ID: 0023
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(op.f("idempotency_keys_created_at"), "idempotency_keys", ["created_at"])
    op.create_index(
        "deliveries_test", "deliveries", ["created_at"], postgresql_where=sa.text("test")
    )


def downgrade() -> None:
    op.drop_index("deliveries_test", table_name="deliveries")
    op.drop_index(op.f("idempotency_keys_created_at"), table_name="idempotency_keys")
