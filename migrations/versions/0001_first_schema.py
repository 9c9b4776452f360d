"""The first schema: tenants, files, jobs, shards, results, workers and deliveries.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "models",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("models_pkey")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), server_default="1", nullable=False),
        sa.Column("webhook_secret", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint("weight > 0", name=op.f("tenants_weight_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("tenants_pkey")),
        sa.UniqueConstraint("name", name=op.f("tenants_name_key")),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("admin", sa.Boolean(), server_default="false", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("api_keys_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("api_keys_pkey")),
    )
    op.create_table(
        "fair_queues",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("highest_stamp", sa.Double(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fair_queues_model_fkey")),
        sa.PrimaryKeyConstraint("model", name=op.f("fair_queues_pkey")),
    )
    op.create_table(
        "fair_shares",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("last_finish", sa.Double(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("fair_shares_model_fkey")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fair_shares_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("model", "tenant_id", name=op.f("fair_shares_pkey")),
    )
    op.create_table(
        "files",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("storage_key", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("files_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("files_pkey")),
    )
    op.create_index(
        op.f("files_tenant_id_created_at_id"),
        "files",
        ["tenant_id", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("idempotency_keys_tenant_id_fkey")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "key", name=op.f("idempotency_keys_pkey")),
    )
    op.create_table(
        "workers",
        sa.Column("incarnation", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Enum("control", "inference", name="worker_kind"), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("beat_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("progress", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("draining", sa.Boolean(), server_default="false", nullable=False),
        sa.Column(
            "stats",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("workers_model_fkey")),
        sa.PrimaryKeyConstraint("incarnation", name=op.f("workers_pkey")),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Enum("request", "batch", name="job_kind"), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "validating",
                "in_progress",
                "stopping",
                "finalizing",
                "completed",
                "failed",
                "cancelled",
                "expired",
                name="job_state",
            ),
            nullable=False,
        ),
        sa.Column(
            "ends_as",
            sa.Enum(
                "queued",
                "validating",
                "in_progress",
                "stopping",
                "finalizing",
                "completed",
                "failed",
                "cancelled",
                "expired",
                name="job_state",
            ),
            nullable=True,
        ),
        sa.Column("owner", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "not_before",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("interactive", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("input_file_id", sa.Uuid(), nullable=True),
        sa.Column(
            "on_invalid_line",
            sa.Enum("fail", "skip", name="on_invalid_line"),
            server_default="fail",
            nullable=False,
        ),
        sa.Column("completion_window", sa.Text(), nullable=True),
        sa.Column("output_expires_after", sa.Integer(), nullable=True),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("in_progress_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finalizing_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelling_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "errors", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("total", sa.Integer(), server_default="0", nullable=False),
        sa.Column("completed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_file_id", sa.Uuid(), nullable=True),
        sa.Column("error_file_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "(kind = 'batch') = (input_file_id IS NOT NULL)", name=op.f("jobs_input_check")
        ),
        sa.CheckConstraint(
            "(state IN ('completed', 'failed', 'cancelled', 'expired'))"
            " = (finished_at IS NOT NULL)",
            name=op.f("jobs_terminal_check"),
        ),
        sa.CheckConstraint(
            "owner IS NULL OR state IN ('validating', 'finalizing')", name=op.f("jobs_leased_check")
        ),
        sa.CheckConstraint(
            "state <> 'stopping' OR ends_as IS NOT NULL", name=op.f("jobs_stopping_check")
        ),
        sa.ForeignKeyConstraint(
            ["error_file_id"], ["files.id"], name=op.f("jobs_error_file_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["input_file_id"], ["files.id"], name=op.f("jobs_input_file_id_fkey")
        ),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("jobs_model_fkey")),
        sa.ForeignKeyConstraint(
            ["output_file_id"], ["files.id"], name=op.f("jobs_output_file_id_fkey")
        ),
        sa.ForeignKeyConstraint(["owner"], ["workers.incarnation"], name=op.f("jobs_owner_fkey")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("jobs_tenant_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("jobs_pkey")),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index(
        "jobs_expiring",
        "jobs",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'validating', 'in_progress')"),
    )
    op.create_index(
        "jobs_open",
        "jobs",
        ["kind", "state", "created_at"],
        unique=False,
        postgresql_where=sa.text("state NOT IN ('completed', 'failed', 'cancelled', 'expired')"),
    )
    op.create_index(
        "jobs_owner", "jobs", ["owner"], unique=False, postgresql_where=sa.text("owner IS NOT NULL")
    )
    op.create_index(
        op.f("jobs_tenant_id_kind_created_at_id"),
        "jobs",
        ["tenant_id", "kind", "created_at", "id"],
        unique=False,
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("events_job_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("events_pkey")),
        sa.UniqueConstraint("job_id", name=op.f("events_job_id_key")),
    )
    op.create_table(
        "requests",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("custom_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("requests_job_id_fkey")),
        sa.PrimaryKeyConstraint("job_id", "index", name=op.f("requests_pkey")),
    )
    op.create_table(
        "shards",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued", "leased", "suspect", "done", "cancelled", "split", name="shard_state"
            ),
            server_default="queued",
            nullable=False,
        ),
        sa.Column("owner", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("interactive", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("stamp", sa.Double(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("prefix_key", sa.Text(), nullable=True),
        sa.Column(
            "not_before",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("input_key", sa.Text(), nullable=True),
        sa.Column("first_line", sa.Integer(), server_default="0", nullable=False),
        sa.Column("end_line", sa.Integer(), nullable=False),
        sa.Column("inline", sa.Text(), nullable=True),
        sa.Column("solo", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("alone", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("crashes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("deaths_alone", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "(state = 'leased') = (owner IS NOT NULL)", name=op.f("shards_leased_check")
        ),
        sa.CheckConstraint(
            "(input_key IS NULL) <> (inline IS NULL)", name=op.f("shards_input_check")
        ),
        sa.CheckConstraint("first_line < end_line", name=op.f("shards_lines_check")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("shards_job_id_fkey")),
        sa.ForeignKeyConstraint(["model"], ["models.name"], name=op.f("shards_model_fkey")),
        sa.ForeignKeyConstraint(["owner"], ["workers.incarnation"], name=op.f("shards_owner_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("shards_pkey")),
        postgresql_with={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index(
        "shards_line",
        "shards",
        ["model", sa.literal_column("interactive DESC"), "stamp", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "shards_open",
        "shards",
        ["job_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'leased', 'suspect')"),
    )
    op.create_index(
        "shards_owner",
        "shards",
        ["owner"],
        unique=False,
        postgresql_where=sa.text("owner IS NOT NULL"),
    )
    op.create_index(
        "shards_suspect",
        "shards",
        ["id"],
        unique=False,
        postgresql_where=sa.text("state = 'suspect'"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum("pending", "delivered", "failed", name="delivery_state"),
            server_default="pending",
            nullable=False,
        ),
        sa.Column("owner", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "owner IS NULL OR state = 'pending'", name=op.f("deliveries_leased_check")
        ),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("deliveries_event_id_fkey")),
        sa.ForeignKeyConstraint(
            ["owner"], ["workers.incarnation"], name=op.f("deliveries_owner_fkey")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("deliveries_pkey")),
        sa.UniqueConstraint("event_id", "url", name=op.f("deliveries_event_id_url_key")),
    )
    op.create_index(
        "deliveries_due",
        "deliveries",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("state = 'pending' AND owner IS NULL"),
    )
    op.create_index(
        "deliveries_owner",
        "deliveries",
        ["owner"],
        unique=False,
        postgresql_where=sa.text("owner IS NOT NULL"),
    )
    op.create_table(
        "segments",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("shard_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("storage_key", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("ok", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("last_index", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("segments_job_id_fkey")),
        sa.ForeignKeyConstraint(["shard_id"], ["shards.id"], name=op.f("segments_shard_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("segments_pkey")),
    )
    op.create_index(
        op.f("segments_job_id_shard_id"), "segments", ["job_id", "shard_id"], unique=False
    )
    op.create_table(
        "results",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.BigInteger(), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("results_job_id_fkey")),
        sa.ForeignKeyConstraint(
            ["segment_id"], ["segments.id"], name=op.f("results_segment_id_fkey")
        ),
        sa.PrimaryKeyConstraint("job_id", "index", name=op.f("results_pkey")),
    )


def downgrade() -> None:
    op.drop_table("results")
    op.drop_index(op.f("segments_job_id_shard_id"), table_name="segments")
    op.drop_table("segments")
    op.drop_index(
        "deliveries_owner", table_name="deliveries", postgresql_where=sa.text("owner IS NOT NULL")
    )
    op.drop_index(
        "deliveries_due",
        table_name="deliveries",
        postgresql_where=sa.text("state = 'pending' AND owner IS NULL"),
    )
    op.drop_table("deliveries")
    op.drop_index(
        "shards_suspect", table_name="shards", postgresql_where=sa.text("state = 'suspect'")
    )
    op.drop_index(
        "shards_owner", table_name="shards", postgresql_where=sa.text("owner IS NOT NULL")
    )
    op.drop_index(
        "shards_open",
        table_name="shards",
        postgresql_where=sa.text("state IN ('queued', 'leased', 'suspect')"),
    )
    op.drop_index("shards_line", table_name="shards", postgresql_where=sa.text("state = 'queued'"))
    op.drop_table("shards")
    op.drop_table("requests")
    op.drop_table("events")
    op.drop_index(op.f("jobs_tenant_id_kind_created_at_id"), table_name="jobs")
    op.drop_index("jobs_owner", table_name="jobs", postgresql_where=sa.text("owner IS NOT NULL"))
    op.drop_index(
        "jobs_expiring",
        table_name="jobs",
        postgresql_where=sa.text("state IN ('queued', 'validating', 'in_progress')"),
    )
    op.drop_index(
        "jobs_open",
        table_name="jobs",
        postgresql_where=sa.text("state NOT IN ('completed', 'failed', 'cancelled', 'expired')"),
    )
    op.drop_table("jobs")
    op.drop_table("workers")
    op.drop_table("idempotency_keys")
    op.drop_index(op.f("files_tenant_id_created_at_id"), table_name="files")
    op.drop_table("files")
    op.drop_table("fair_shares")
    op.drop_table("fair_queues")
    op.drop_table("api_keys")
    op.drop_table("tenants")
    op.drop_table("models")
    for name in (
        "job_kind",
        "job_state",
        "on_invalid_line",
        "shard_state",
        "worker_kind",
        "delivery_state",
    ):
        op.execute(f"DROP TYPE {name}")
