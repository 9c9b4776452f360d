"""Segments know the transaction that committed them, so that results can be read while they come.

Revision ID: 0010
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0005"
branch_labels = None
depends_on = None

_THIS_TRANSACTION = "pg_current_xact_id()::text::bigint"


def upgrade() -> None:
    op.add_column(
        "segments",
        sa.Column(
            "written_by",
            sa.BigInteger(),
            server_default=sa.text(_THIS_TRANSACTION),
            nullable=False,
        ),
    )
    op.create_index(
        op.f("segments_job_id_written_by_id"), "segments", ["job_id", "written_by", "id"]
    )


def downgrade() -> None:
    op.drop_index(op.f("segments_job_id_written_by_id"), table_name="segments")
    op.drop_column("segments", "written_by")
