"""``etharness doctor``: which of the tools that boards need are installed."""

from __future__ import annotations

import click

from harness.cli.command import OutputOptions, PanelCommand, complete_boards, option, output_options


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
    from harness.config.board import SerialTarget, board_names, load_board
    from harness.extensions.doctor.table import show_programs
    from harness.flash.plan import find_flash_tools
    from harness.target.doctor import find_programs

    boards = [load_board(name)[0] for name in ([board] if board else board_names())]
    needed, tools = find_programs(boards), find_flash_tools(boards)
    findings = needed + tools
    if output.json:
        output.print_json(findings)
    else:
        if needed:
            show_programs(needed, output)
        if tools:
            show_programs(tools, output, "Flashing tools (one is enough)")
    lacks = any(finding.version is None for finding in needed)
    if any(isinstance(item.target, SerialTarget) for item in boards):
        lacks = lacks or all(tool.version is None for tool in tools)
    return 2 if board and lacks else 0


command.section = "Setup"
