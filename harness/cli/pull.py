"""``etharness pull``: the last trace of a board that is already running."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, output_options, show_outcome
from harness.lab.pull import pull


@click.command(name="pull")
@click.option("--board", required=True, help="Board name (see `etharness boards`) or board file.")
@click.option("-p", "--port", required=True, help="Serial port the board is on.")
@click.option("--baud", type=click.IntRange(min=1), help="Instead of the board file's.")
@click.option(
    "-o",
    "--output",
    "directory",
    default=Path("out/pull"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Run directory to make.",
)
@output_options
def command(board: str, port: str, baud: int | None, directory: Path, output: Output) -> None:
    """Read the last trace from a board that is already running."""
    with output.stages() as stages:
        outcome = pull(board, port, baud, directory, stages)
    show_outcome(output, outcome, directory)
