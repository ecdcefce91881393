"""``etharness doctor``: what this machine can do and what it lacks."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options
from harness.config.board import SerialTarget, board_names, load_board
from harness.flash.doctor import examine as flash_tools
from harness.target.doctor import ProgramFinding, examine


@click.command(name="doctor")
@click.option("--board", help="Only what this board needs; exit code 2 if any of it is missing.")
@output_options
def command(board: str | None, output: OutputOptions) -> int:
    """Say what this machine can do and what it lacks."""
    boards = [load_board(name)[0] for name in ([board] if board else board_names())]
    needed, tools = examine(boards), flash_tools(boards)
    findings = needed + tools
    if output.json:
        from harness.records.result import encode

        click.echo(encode(findings), nl=False)
    else:
        if needed:
            _show(needed, output)
        if tools:
            _show(tools, output, "To flash with, one is enough")
    lacks = any(finding.version is None for finding in needed)
    if any(isinstance(item.target, SerialTarget) for item in boards):
        lacks = lacks or all(tool.version is None for tool in tools)
    return 2 if board and lacks else 0


def _show(findings: list[ProgramFinding], output: OutputOptions, title: str = "") -> None:
    from harness.report.terminal import show_table

    rows = [
        (
            "ok" if finding.version else "missing" if title else "MISSING",
            finding.tool,
            finding.version or finding.remedy,
            ", ".join(finding.needed_by),
        )
        for finding in findings
    ]
    headers = ("", "tool", "version or remedy", "for" if title else "needed by")
    show_table(output.console(), headers, rows, title=title)
