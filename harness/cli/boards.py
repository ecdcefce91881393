"""``etharness boards``: the supported board types."""

from __future__ import annotations

import click

from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions
from harness.config.board import (
    BoardMemory,
    NativeTarget,
    QemuTarget,
    RtlTarget,
    SerialTarget,
    board_names,
    load_board,
)

_RUNS = {
    NativeTarget: "on this host",
    QemuTarget: "simulated",
    RtlTarget: "simulated RTL",
    SerialTarget: "real",
}


@click.command(name="boards", cls=PanelCommand)
@output_options
def command(output: OutputOptions) -> None:
    """List the supported boards.

    Their names are values of --board, which also takes the path of a board file.
    """
    boards = [load_board(name)[0] for name in board_names()]
    if output.json:
        output.print_json(boards)
        return
    from harness.report.terminal import show_table
    from harness.report.text import number

    show_table(
        output.console(),
        ("board", "core", "RAM", "flash", "runs", "timer", "tested", "description"),
        [
            (
                board.name,
                board.cpu,
                *_memory(board.memory),
                _RUNS[type(board.target)] + (", untested" if board.untested else ""),
                f"{number(board.timer.hz / 1e6)} MHz, {board.timer.bits} bits",
                "UNTESTED on real hardware" if board.untested else board.tested,
                board.description,
            )
            for board in boards
        ],
    )


def _memory(memory: BoardMemory | None) -> tuple[str, str]:
    """Return the sizes of RAM and flash as text; empty if unknown."""
    if memory is None:
        return "", ""
    return _size(memory.ram), _size(memory.code) if memory.code else "in RAM"


def _size(count: int) -> str:
    mib, rest = divmod(count, 1 << 20)
    return f"{mib} MiB" if mib and not rest else f"{count >> 10} KiB"
