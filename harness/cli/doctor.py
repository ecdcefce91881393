"""``etharness doctor``: the tools that this host has and lacks."""

from __future__ import annotations

import click

from harness.cli.completers import complete_boards
from harness.cli.options import PanelCommand, option, output_options
from harness.cli.output import OutputOptions
from harness.config.board import SerialTarget, board_names, load_board
from harness.flash.tools import find_flash_tools
from harness.target.doctor import ProgramFinding, find_programs

_MOST_BOARDS = 3
"""Boards of a tool that are named by default (-v names all)."""


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
    needed, tools = find_programs(boards), find_flash_tools(boards)
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
    """Print a table of tools, and below it how to install those that are missing."""
    from harness.report.terminal import show_line, show_table

    missing = "missing" if title else "MISSING"
    rows = [
        (
            "ok" if finding.version else missing,
            finding.tool,
            finding.version or "",
            _boards(finding.needed_by, every=output.verbosity > 0),
        )
        for finding in findings
    ]
    headers = ("", "tool", "version", "for" if title else "needed by")
    console = output.console()
    show_table(console, headers, rows, title=title)
    for finding in findings:
        if not finding.version:
            show_line(console, f"{missing}: {finding.tool}: {finding.remedy}")
    show_line(console)


def _boards(names: list[str], *, every: bool) -> str:
    """Return the names of a few boards, or how many there are."""
    if every or len(names) <= _MOST_BOARDS:
        return ", ".join(names)
    return f"{len(names)} boards"
