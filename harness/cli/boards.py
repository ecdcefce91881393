"""``etharness boards``: what can be named with --board."""

from __future__ import annotations

import click

from harness.cli.common import OutputOptions, output_options
from harness.config.board import (
    BoardMemory,
    NativeTarget,
    QemuTarget,
    SerialTarget,
    board_names,
    load_board,
)

_RUNS = {NativeTarget: "on this host", QemuTarget: "simulated", SerialTarget: "real"}


@click.command(name="boards")
@output_options
def command(output: OutputOptions) -> None:
    """List the boards that can be named with --board."""
    boards = [load_board(name)[0] for name in board_names()]
    if output.json:
        from harness.records.result import encode

        click.echo(encode(boards), nl=False)
        return
    from harness.report.terminal import show_table

    show_table(
        output.console(),
        ("board", "core", "RAM", "flash", "timer", "runs", "what it is", "tested"),
        [
            (
                board.name,
                board.cpu,
                *_memory(board.memory),
                f"{board.timer.hz} Hz, {board.timer.bits} bits",
                _RUNS[type(board.target)],
                board.description,
                "UNTESTED: nobody has run it on the board" if board.untested else board.tested,
            )
            for board in boards
        ],
    )


def _memory(memory: BoardMemory | None) -> tuple[str, str]:
    """RAM and flash in KiB or MiB."""
    if memory is None:
        return "", ""
    return _size(memory.ram), _size(memory.code) if memory.code else "in RAM"


def _size(count: int) -> str:
    mib, rest = divmod(count, 1 << 20)
    return f"{mib} MiB" if mib and not rest else f"{count >> 10} KiB"
