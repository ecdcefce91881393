"""``etharness pull``: the last trace of a board that is already running."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import chosen_options
from harness.cli.common import OutputOptions, output_options, show_outcome
from harness.cli.paths import FilePath
from harness.lab.units import Chosen
from harness.runs.pull import pull


@click.command(name="pull")
@chosen_options
@click.option("--baud", type=click.IntRange(min=1), help="Instead of the board file's.")
@click.option(
    "-o",
    "--output",
    "directory",
    default=Path("out/pull"),
    show_default=True,
    type=FilePath(),
    help="Run directory to make.",
)
@output_options
def command(chosen: Chosen, baud: int | None, directory: Path, output: OutputOptions) -> None:
    """Read the last trace from a board that is already running."""
    with output.stages() as stages:
        outcome = pull(chosen, baud, directory, stages)
    show_outcome(output, outcome, directory)
