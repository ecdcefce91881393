"""``etharness boards``: what can be named with --board."""

from __future__ import annotations

import click

from harness.board import board_names, load_board
from harness.cli.common import Output, output_options


@click.command(name="boards")
@output_options
def command(output: Output) -> None:
    """List the boards that can be named with --board."""
    boards = [load_board(name)[0] for name in board_names()]
    if output.json:
        from harness.result import encode

        click.echo(encode(boards), nl=False)
        return
    from harness.report.terminal import show_table

    show_table(
        output.console(),
        ("board", "cpu", "timer", "how it runs", "tested"),
        [
            (
                board.name,
                board.cpu,
                f"{board.timer.hz} Hz, {board.timer.bits} bits",
                board.description,
                board.tested,
            )
            for board in boards
        ],
    )
