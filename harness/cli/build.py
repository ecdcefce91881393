"""``etharness build``: the firmware of a board, and how large it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath
from harness.config.board import load_board
from harness.target.build import build_firmware
from harness.target.size import firmware_sizes


@click.command(name="build")
@click.option("--board", required=True, help="Board name (see `etharness boards`) or board file.")
@click.option(
    "-o",
    "--output",
    "destination",
    type=FilePath(),
    help="Copy the image here; without it, only its place in the build cache is printed.",
)
@output_options
def command(board: str, destination: Path | None, output: OutputOptions) -> None:
    """Build the firmware of a board."""
    description, _ = load_board(board)
    firmware = build_firmware(description)
    sizes = list(firmware_sizes(firmware, firmware.preset))
    image = firmware.image
    if destination is not None:
        shutil.copy2(image, destination)
        image = destination
    if output.json:
        from harness.records.result import encode
        from harness.report.document import BuildDocument

        click.echo(encode(BuildDocument(str(image), firmware.build_id, sizes)), nl=False)
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
