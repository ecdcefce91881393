"""``etharness build``: the firmware of a board."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import msgspec

from harness.board import load_board
from harness.cli.common import Output, output_options
from harness.target.build import build_firmware


@click.command(name="build")
@click.option("--board", required=True, help="Board name (see `etharness boards`) or board file.")
@click.option(
    "-o",
    "--output",
    "destination",
    type=click.Path(path_type=Path),
    help="Copy the image here; without it, only its place in the build cache is printed.",
)
@output_options
def command(board: str, destination: Path | None, output: Output) -> None:
    """Build the firmware of a board."""
    firmware = build_firmware(load_board(board)[0])
    image = firmware.image
    if destination is not None:
        shutil.copy2(image, destination)
        image = destination
    if output.json:
        click.echo(msgspec.json.encode({"image": str(image), "build_id": firmware.build_id}))
    else:
        click.echo(f"{image} (build {firmware.build_id}, {image.stat().st_size} bytes)")
