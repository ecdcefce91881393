"""``etharness build``: build the firmware of a board and show its size."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from harness.cli.completers import complete_boards
from harness.cli.options import FilePath, PanelCommand, option, output_options
from harness.cli.output import OutputOptions


@click.command(name="build", cls=PanelCommand)
@option(
    "--board",
    required=True,
    metavar="BOARD",
    shell_complete=complete_boards,
    help="Board name (see `etharness boards`) or board file.",
)
@option(
    "-o",
    "--output",
    "destination",
    metavar="FILE",
    type=FilePath(),
    help="Copy the image to this file.  [default: leave it in the build cache]",
)
@output_options
def command(board: str, destination: Path | None, output: OutputOptions) -> None:
    """Build the firmware of a board.

    Prints the path of the image, its build id, and the size of each part.
    """
    from harness.config.board import load_board
    from harness.target.build import build_firmware, firmware_sizes

    description, _ = load_board(board)
    firmware = build_firmware(description)
    sizes = list(firmware_sizes(firmware))
    image = firmware.image
    if destination is not None:
        shutil.copy2(image, destination)
        image = destination
    if output.json:
        from harness.report.document import BuildDocument

        output.print_json(BuildDocument(str(image), firmware.build_id, sizes))
        return
    click.echo(f"{image} (build {firmware.build_id})")
    if output.verbosity >= 0:
        from harness.report.terminal import show_table

        rows = [
            [size.part, *(f"{count:,}" for count in (size.text, size.data, size.bss))]
            for size in sizes
        ]
        show_table(
            output.console(), ["part", "text [B]", "data [B]", "bss [B]"], rows, numbers=(1, 2, 3)
        )
