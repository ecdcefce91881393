"""``etharness postmortem``: what a board was doing when it crashed."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import optional_chosen_options
from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath
from harness.config.board import load_board
from harness.errors import UsageError
from harness.lab.postmortem import ExaminedPostmortem, Lookup, symbols_of_board, symbols_of_image
from harness.lab.units import Chosen
from harness.runs.postmortem import postmortem_of_board, postmortem_of_path
from harness.target.ports import describe


@click.command(name="postmortem")
@click.argument("path", required=False, type=FilePath())
@optional_chosen_options
@click.option("--baud", type=click.IntRange(min=1), help="Instead of the board file's.")
@click.option(
    "--image",
    type=FilePath(),
    help="ELF file to look up functions and lines in, instead of the board's firmware.",
)
@click.option("-o", "--output", "saved", type=FilePath(), help="Save it here, too.")
@click.option("--clear", is_flag=True, help="Make the board forget it; the next run does anyway.")
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
    """Say what a board was doing when it crashed.

    It is read from the board, or from PATH: a run directory, a file that -o saved, or a dump of
    the device's memory.
    """
    finding = _find(path, chosen, baud, image, clear=clear)
    if finding is None:
        click.echo("null" if output.json else f"{_name(chosen)} has nothing to tell")
        return
    if saved is not None:
        saved.write_bytes(finding.image)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(finding.document), nl=False)
        return
    if output.verbosity < 0:
        click.echo(finding.document.message)
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
        "it is not clear what to look at",
        hint="give either PATH, or --unit, or --board and --port, of a board that is running",
    )


def _name(chosen: Chosen | None) -> str:
    if chosen is not None and chosen.unit:
        return chosen.unit
    if chosen is None or chosen.port is None:
        return "it"
    return f"{chosen.board} on {describe(chosen.port)}"
