"""``etharness doctor``: what this machine can do and what it lacks."""

from __future__ import annotations

import click

from harness.board import board_names, load_board
from harness.cli.common import Output, output_options
from harness.target.doctor import Finding, examine


@click.command(name="doctor")
@click.option("--board", help="Only what this board needs; exit code 2 if any of it is missing.")
@output_options
def command(board: str | None, output: Output) -> int:
    """Say what this machine can do and what it lacks."""
    boards = [load_board(name)[0] for name in ([board] if board else board_names())]
    findings = examine(boards)
    if output.json:
        from harness.result import encode

        click.echo(encode(findings), nl=False)
    else:
        _show(findings, output)
    return 2 if board and any(finding.version is None for finding in findings) else 0


def _show(findings: list[Finding], output: Output) -> None:
    from harness.report.terminal import show_table

    rows = [
        (
            "ok" if finding.version else "MISSING",
            finding.tool,
            finding.version or finding.remedy,
            ", ".join(finding.needed_by),
        )
        for finding in findings
    ]
    show_table(output.console(), ("", "tool", "version or remedy", "needed by"), rows)
