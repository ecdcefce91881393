"""The first tables: results, operators' times, other numbers, baselines.

As they were then, whatever ``harness.history.tables`` says now.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None

_ORDERED = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "name",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("text", _ORDERED, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("name_pkey")),
        sa.UniqueConstraint("digest", name=op.f("name_digest_key")),
    )
    op.create_table(
        "baseline",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name_id", sa.Integer(), nullable=False),
        sa.Column("set_utc", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["name_id"], ["name.id"], name=op.f("baseline_name_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("baseline_pkey")),
        sa.UniqueConstraint("name_id", name=op.f("baseline_name_id_key")),
    )
    op.create_table(
        "metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name_id", sa.Integer(), nullable=False),
        sa.Column("statistic", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("block_id", sa.Integer(), nullable=False),
        sa.Column("chain", sa.BigInteger(), nullable=False),
        sa.Column("instruction", sa.BigInteger(), nullable=False),
        sa.Column("delegate_int", sa.BigInteger(), nullable=False),
        sa.Column("delegate_str_id", sa.Integer(), nullable=True),
        sa.Column("clock_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["block_id"], ["name.id"], name=op.f("metric_block_id_fkey")),
        sa.ForeignKeyConstraint(["clock_id"], ["name.id"], name=op.f("metric_clock_id_fkey")),
        sa.ForeignKeyConstraint(
            ["delegate_str_id"], ["name.id"], name=op.f("metric_delegate_str_id_fkey")
        ),
        sa.ForeignKeyConstraint(["name_id"], ["name.id"], name=op.f("metric_name_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("metric_pkey")),
        sa.UniqueConstraint("digest", name=op.f("metric_digest_key")),
    )
    op.create_table(
        "result",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("own_id", _ORDERED, nullable=False),
        sa.Column("started_utc", sa.Text(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("board_id", sa.Integer(), nullable=False),
        sa.Column("unit_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("model_sha256_id", sa.Integer(), nullable=False),
        sa.Column("method_id", sa.Integer(), nullable=False),
        sa.Column("build_id", sa.Integer(), nullable=False),
        sa.Column("tool_id", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("exit_code", sa.SmallInteger(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=True),
        sa.Column("budget_id", sa.Integer(), nullable=False),
        sa.Column("failure_id", sa.Integer(), nullable=False),
        sa.Column("failure_message", sa.Text(), nullable=False),
        sa.Column("runs_requested", sa.BigInteger(), nullable=False),
        sa.Column("runs_completed", sa.BigInteger(), nullable=False),
        sa.Column("baud", sa.BigInteger(), nullable=False),
        sa.Column("link_bytes", sa.BigInteger(), nullable=False),
        sa.Column("link_corrupt", sa.BigInteger(), nullable=False),
        sa.Column("link_retries", sa.BigInteger(), nullable=False),
        sa.Column("link_goodput", sa.Double(), nullable=True),
        sa.Column("lost_events", sa.BigInteger(), nullable=False),
        sa.Column("lost_blocks", sa.BigInteger(), nullable=False),
        sa.Column("lost_values", sa.BigInteger(), nullable=False),
        sa.Column("lost_runs", sa.BigInteger(), nullable=False),
        sa.Column("lost_chunks", sa.BigInteger(), nullable=False),
        sa.Column("lost_records", sa.BigInteger(), nullable=False),
        sa.Column("lost_damaged", sa.BigInteger(), nullable=False),
        sa.Column("indistinct", sa.BigInteger(), nullable=False),
        sa.Column("sound", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["board_id"], ["name.id"], name=op.f("result_board_id_fkey")),
        sa.ForeignKeyConstraint(["budget_id"], ["name.id"], name=op.f("result_budget_id_fkey")),
        sa.ForeignKeyConstraint(["build_id"], ["name.id"], name=op.f("result_build_id_fkey")),
        sa.ForeignKeyConstraint(["commit_id"], ["name.id"], name=op.f("result_commit_id_fkey")),
        sa.ForeignKeyConstraint(["failure_id"], ["name.id"], name=op.f("result_failure_id_fkey")),
        sa.ForeignKeyConstraint(["method_id"], ["name.id"], name=op.f("result_method_id_fkey")),
        sa.ForeignKeyConstraint(["model_id"], ["name.id"], name=op.f("result_model_id_fkey")),
        sa.ForeignKeyConstraint(
            ["model_sha256_id"], ["name.id"], name=op.f("result_model_sha256_id_fkey")
        ),
        sa.ForeignKeyConstraint(["session_id"], ["name.id"], name=op.f("result_session_id_fkey")),
        sa.ForeignKeyConstraint(["tool_id"], ["name.id"], name=op.f("result_tool_id_fkey")),
        sa.ForeignKeyConstraint(["unit_id"], ["name.id"], name=op.f("result_unit_id_fkey")),
        sa.PrimaryKeyConstraint("id", name=op.f("result_pkey")),
        sa.UniqueConstraint("own_id", name=op.f("result_own_id_key")),
    )
    op.create_index(
        "result_by_board",
        "result",
        ["board_id", "model_id", "method_id", "started_us", "own_id"],
        unique=False,
    )
    op.create_index("result_by_time", "result", ["started_us", "own_id"], unique=False)
    op.create_table(
        "baseline_result",
        sa.Column("baseline_id", sa.Integer(), nullable=False),
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["baseline_id"],
            ["baseline.id"],
            name=op.f("baseline_result_baseline_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["result_id"], ["result.id"], name=op.f("baseline_result_result_id_fkey")
        ),
        sa.PrimaryKeyConstraint("baseline_id", "result_id", name=op.f("baseline_result_pkey")),
        sqlite_with_rowid=False,
    )
    op.create_index("baseline_result_by_result", "baseline_result", ["result_id"], unique=False)
    op.create_table(
        "number",
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["metric_id"], ["metric.id"], name=op.f("number_metric_id_fkey")),
        sa.ForeignKeyConstraint(
            ["result_id"], ["result.id"], name=op.f("number_result_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("result_id", "metric_id", name=op.f("number_pkey")),
        sqlite_with_rowid=False,
    )
    op.create_index("number_by_metric", "number", ["metric_id", "result_id"], unique=False)
    op.create_table(
        "operator_time",
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.Column("metric_id", sa.Integer(), nullable=False),
        sa.Column("executions", sa.SmallInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False),
        sa.Column("avg", sa.Double(), nullable=False),
        sa.Column("p10", sa.Double(), nullable=False),
        sa.Column("p50", sa.Double(), nullable=False),
        sa.Column("p90", sa.Double(), nullable=False),
        sa.Column("min", sa.Double(), nullable=False),
        sa.Column("max", sa.Double(), nullable=False),
        sa.Column("std", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["metric_id"], ["metric.id"], name=op.f("operator_time_metric_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["result.id"],
            name=op.f("operator_time_result_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "result_id", "metric_id", "executions", name=op.f("operator_time_pkey")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "operator_time_by_metric", "operator_time", ["metric_id", "result_id"], unique=False
    )
    op.create_table(
        "result_clock",
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("clock_id", sa.Integer(), nullable=False),
        sa.Column("reference_id", sa.Integer(), nullable=False),
        sa.Column("epochs_id", sa.Integer(), nullable=False),
        sa.Column("unknown_id", sa.Integer(), nullable=False),
        sa.Column("readings", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("placed", sa.BigInteger(), nullable=False),
        sa.Column("bounded", sa.BigInteger(), nullable=False),
        sa.Column("half_width_ns", sa.BigInteger(), nullable=True),
        sa.Column("silent_wraps", sa.BigInteger(), nullable=False),
        sa.Column("unsettled", sa.BigInteger(), nullable=False),
        sa.Column("rate_low_ppm", sa.Double(), nullable=True),
        sa.Column("rate_high_ppm", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["clock_id"], ["name.id"], name=op.f("result_clock_clock_id_fkey")),
        sa.ForeignKeyConstraint(
            ["epochs_id"], ["name.id"], name=op.f("result_clock_epochs_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["reference_id"], ["name.id"], name=op.f("result_clock_reference_id_fkey")
        ),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["result.id"],
            name=op.f("result_clock_result_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["unknown_id"], ["name.id"], name=op.f("result_clock_unknown_id_fkey")
        ),
        sa.PrimaryKeyConstraint("result_id", "position", name=op.f("result_clock_pkey")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "result_code",
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.Column("code_id", sa.Integer(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("warned", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["code_id"], ["name.id"], name=op.f("result_code_code_id_fkey")),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["result.id"],
            name=op.f("result_code_result_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("result_id", "code_id", name=op.f("result_code_pkey")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Remove the tables with all that they hold."""
    op.drop_table("result_code")
    op.drop_table("result_clock")
    op.drop_index("operator_time_by_metric", table_name="operator_time")
    op.drop_table("operator_time")
    op.drop_index("number_by_metric", table_name="number")
    op.drop_table("number")
    op.drop_index("baseline_result_by_result", table_name="baseline_result")
    op.drop_table("baseline_result")
    op.drop_index("result_by_time", table_name="result")
    op.drop_index("result_by_board", table_name="result")
    op.drop_table("result")
    op.drop_table("metric")
    op.drop_table("baseline")
    op.drop_table("name")
