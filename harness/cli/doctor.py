"""``etharness doctor``: the tools that this host has and lacks."""

from __future__ import annotations

import click

from harness.cli.completers import complete_boards
from harness.cli.options import PanelCommand, option, output_options
from harness.cli.output import OutputOptions
from harness.config.board import SerialTarget, board_names, load_board
from harness.flash.tools import examine as flash_tools
from harness.target.doctor import ProgramFinding, examine


@click.command(name="doctor", cls=PanelCommand)
@option(
    "--board",
    metavar="BOARD",
    shell_complete=complete_boards,
    help="List only the tools for this board; exit with 2 if one is missing.",
)
@output_options
def command(board: str | None, output: OutputOptions) -> int:
    """List the tools that this host has and lacks.

    A missing tool is printed with the boards that need it and the command that installs it.
    """
    boards = [load_board(name)[0] for name in ([board] if board else board_names())]
    needed, tools = examine(boards), flash_tools(boards)
    findings = needed + tools
    if output.json:
        output.print_json(findings)
    else:
        if needed:
            _show(needed, output)
        if tools:
            _show(tools, output, "Flashing tools (one is enough)")
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
