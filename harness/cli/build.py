"""``etharness build``: build the firmware of a board and show its size."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from harness.cli.completers import complete_boards, complete_models
from harness.cli.options import FilePath, PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions
from harness.errors import UsageError


@click.command(name="build", cls=PanelCommand)
@panel(
    "Firmware",
    option(
        "--board",
        required=True,
        metavar="BOARD",
        shell_complete=complete_boards,
        help="Board name (see `etharness boards`) or board file.",
    ),
    option(
        "-o",
        "--output",
        "destination",
        metavar="FILE",
        type=FilePath(),
        help="Copy the image to this file.  [default: leave it in the build cache]",
    ),
)
@panel(
    "Model in flash",
    option(
        "--model",
        metavar="FILE",
        type=FilePath(),
        shell_complete=complete_models,
        help="Place this model in the image: `run` uploads nothing, and the RAM of the upload "
        "buffer goes to inputs and arena.",
    ),
    option(
        "--upload-buffer",
        "upload",
        metavar="BYTES",
        type=click.IntRange(min=0),
        help="With --model: RAM to keep for uploads of other models.  [default: 0]",
    ),
)
@output_options
def command(
    board: str,
    destination: Path | None,
    model: Path | None,
    upload: int | None,
    output: OutputOptions,
) -> None:
    """Build the firmware of a board.

    Prints the path of the image, its build id, and the size of each part.
    """
    from harness.config.board import load_board
    from harness.files import find_model, read_model
    from harness.report.document import BuildDocument, placed_document
    from harness.runs.loading import place_model
    from harness.target.build import build_firmware, firmware_sizes

    description, _ = load_board(board)
    if upload is not None and model is None:
        raise UsageError(
            "--upload-buffer is for firmware with a model in flash", hint="add --model FILE"
        )
    placed = None
    if model is not None:
        path = find_model(model)
        placed = place_model(path, read_model(path), description, upload=upload or 0)
    firmware = build_firmware(description, placed)
    sizes = list(firmware_sizes(firmware))
    image = firmware.image
    if destination is not None:
        shutil.copy2(image, destination)
        image = destination
    described = placed_document(placed)
    if output.json:
        output.print_json(BuildDocument(str(image), firmware.build_id, sizes, described))
        return
    output.print_line(f"{image} (build {firmware.build_id})")
    if described is not None:
        output.print_line(
            f"{described.name}: {described.bytes:,} bytes in the image; RAM: arena "
            f"{described.arena:,}, inputs {described.inputs:,}, uploads {described.uploads:,} bytes"
        )
    if output.verbosity >= 0:
        from harness.report.terminal import show_table

        rows = [
            [size.part, *(f"{count:,}" for count in (size.text, size.data, size.bss))]
            for size in sizes
        ]
        show_table(
            output.console(), ["part", "text [B]", "data [B]", "bss [B]"], rows, numbers=(1, 2, 3)
        )
