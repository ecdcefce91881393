"""``etharness postmortem``: show what a board was doing when it crashed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import (
    RESULTS,
    FilePath,
    PanelCommand,
    baud_option,
    option,
    optional_target_options,
    output_options,
    panel,
)
from harness.cli.output import OutputOptions
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.lab.postmortem import ExaminedPostmortem, Lookup
    from harness.lab.units import Chosen


@click.command(name="postmortem", cls=PanelCommand)
@click.argument("path", required=False, type=FilePath())
@optional_target_options
@baud_option
@panel(
    "Crash record",
    option(
        "--image",
        metavar="FILE",
        type=FilePath(),
        help="ELF file with the symbols of the firmware.  [default: the board's firmware]",
    ),
    option(
        "--clear",
        is_flag=True,
        help="Erase the crash record on the board; the next run erases it too.",
    ),
)
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "saved",
        metavar="FILE",
        type=FilePath(),
        help="Also save the crash record to this file.",
    ),
)
@output_options
def command(
    path: Path | None,
    chosen: Chosen | None,
    baud: int | None,
    image: Path | None,
    saved: Path | None,
    clear: bool,
    output: OutputOptions,
) -> None:
    """Show what a board was doing when it crashed.

    The crash record is read from the board, or from PATH: a run directory, a file that -o saved,
    or a dump of the device's memory.
    """
    finding = _find(path, chosen, baud, image, clear=clear)
    if finding is None:
        click.echo("null" if output.json else f"{_name(chosen)} has no crash record")
        return
    if saved is not None:
        saved.write_bytes(finding.image)
    if output.json:
        output.print_json(finding.document)
        return
    if output.verbosity < 0:
        output.print_line(finding.document.message)
        return
    from harness.report.postmortem import print_postmortem

    print_postmortem(output.console(), finding.found, finding.document)


def _find(
    path: Path | None,
    chosen: Chosen | None,
    baud: int | None,
    image: Path | None,
    *,
    clear: bool,
) -> ExaminedPostmortem | None:
    from harness.config.board import load_board
    from harness.lab.postmortem import symbols_of_board, symbols_of_image
    from harness.runs.pull import postmortem_of_board, postmortem_of_path

    board = load_board(chosen.board)[0] if chosen else None
    on_port = chosen is not None and chosen.is_on_port
    lookup: Lookup | None = None
    if image is not None:
        lookup = symbols_of_image(image)
    elif board is not None:
        lookup = symbols_of_board(board)
    if path is not None and not on_port:
        return postmortem_of_path(path, lookup)
    if path is None and chosen is not None and on_port and board is not None and lookup:
        return postmortem_of_board(board, chosen, baud, lookup, clear=clear)
    raise UsageError(
        "no crash record is selected, or more than one",
        hint="name a PATH, or a running board by --unit or by --board and --port",
    )


def _name(chosen: Chosen | None) -> str:
    if chosen is not None and chosen.unit:
        return chosen.unit
    if chosen is None or chosen.port is None:
        return "the file"
    from harness.target.ports import describe

    return f"{chosen.board} on {describe(chosen.port)}"
