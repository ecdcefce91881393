"""``etharness new-board``: a port and a board file from the template (docs/boards.md)."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.command import (
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    option,
    output_options,
    panel,
)
from harness.printing import counted


@click.command(name="new-board", cls=PanelCommand)
@click.argument("name", metavar="NAME")
@panel(
    RESULTS,
    option(
        "-d",
        "--directory",
        default=".",
        metavar="DIR",
        type=FilePath(),
        help="Folder of the board file and of the port.  [default: the working directory]",
    ),
)
@output_options
def command(name: str, directory: Path, output: OutputOptions) -> None:
    """Begin a port for a new board, from the template.

    Writes the board file NAME.toml and the folder of its port, which is named like the board with
    `_` for `-`. FILL_IN marks every place to fill in (`etharness explain boards`). Existing files
    are never replaced.
    """
    from harness.extensions.porting.template import begin_board
    from harness.files import display_path

    begun = begin_board(name, directory)
    if output.json:
        output.print_json(begun)
        return
    for file, places in begun.files.items():
        output.print_line(
            f"wrote {display_path(directory / file)}: {counted(places, 'place')} to fill in"
        )


command.section = "Setup"
