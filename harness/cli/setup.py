"""``etharness boards``, ``build`` and ``completion``."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from harness.cli import command
from harness.config.board import BoardMemory, board_names, load_board
from harness.errors import UsageError, write_error
from harness.printing import print_text


@click.command(name="boards", cls=command.PanelCommand)
@command.output_options
def boards_command(output: command.OutputOptions) -> None:
    """List the supported boards.

    Their names are values of --board, which also takes the path of a board file.
    """
    boards = [load_board(name)[0] for name in board_names()]
    if output.json:
        output.print_json(boards)
        return
    from harness.report.terminal import show_table
    from harness.report.words import number

    show_table(
        output.console(),
        ("board", "core", "RAM", "flash", "runs", "timer", "tested", "description"),
        [
            (
                board.name,
                board.cpu,
                *_memory(board.memory),
                board.target.runs + (", untested" if board.untested else ""),
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


@click.command(name="build", cls=command.PanelCommand)
@command.panel(
    "Firmware",
    command.option(
        "--board",
        required=True,
        metavar="BOARD",
        shell_complete=command.complete_boards,
        help="Board name (see `etharness boards`) or board file.",
    ),
    command.option(
        "-o",
        "--output",
        "destination",
        metavar="FILE",
        type=command.FilePath(),
        help="Copy the image to this file.  [default: leave it in the build cache]",
    ),
)
@command.panel(
    "Model in flash",
    command.option(
        "--model",
        metavar="FILE",
        type=command.FilePath(),
        shell_complete=command.complete_models,
        help="Place this model in the image: `run` uploads nothing, and the RAM of the upload "
        "buffer goes to inputs and arena.",
    ),
    command.setting_option("data"),
    command.option(
        "--upload-buffer",
        "upload",
        metavar="BYTES",
        type=click.IntRange(min=0),
        help="With --model: RAM to keep for uploads of other models.  [default: 0]",
    ),
)
@command.output_options
def build_command(
    board: str,
    destination: Path | None,
    model: Path | None,
    data: tuple[Path, ...],
    upload: int | None,
    output: command.OutputOptions,
) -> None:
    """Build the firmware of a board.

    Prints the path of the image, its build id, and the size of each part.
    """
    from harness.config.board import load_board
    from harness.decode.pte import ModelFile, linked_program
    from harness.files import display_path, find_model, read_model
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
        program = linked_program(read_model(path), display_path(path), data)
        placed = place_model(ModelFile(path, program), description, upload=upload or 0)
    firmware = build_firmware(description, placed)
    sizes = list(firmware_sizes(firmware))
    image = firmware.image
    if destination is not None:
        try:
            shutil.copy2(image, destination)
        except OSError as error:
            raise write_error(error, f"cannot write the image {destination}") from error
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


COMPLETE_VARIABLE = "_ETHARNESS_COMPLETE"
"""Environment variable by which the script asks ``etharness`` for completions."""

_INSTALLATION = """\b
Installation:
  bash  eval "$(etharness completion bash)" in ~/.bashrc
  zsh   eval "$(etharness completion zsh)" in ~/.zshrc, after compinit
  fish  etharness completion fish > ~/.config/fish/completions/etharness.fish
"""


@click.command(name="completion", cls=command.PanelCommand, epilog=_INSTALLATION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a shell completion script.

    The shell then completes commands, options, board names, lab units, models of the package and
    check codes.
    """
    from click.shell_completion import get_completion_class

    from harness.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click has all three
    print_text(kind(cli, {}, "etharness", COMPLETE_VARIABLE).source())
