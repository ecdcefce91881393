"""``etharness pull``: read the last trace from a running board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import (
    OUTPUT,
    PanelCommand,
    baud_option,
    output_directory,
    output_options,
    panel,
    target_options,
)
from harness.cli.output import OutputOptions, show_outcome

if TYPE_CHECKING:
    from harness.lab.units import Chosen


@click.command(name="pull", cls=PanelCommand)
@target_options
@baud_option
@panel(
    OUTPUT,
    output_directory("out/pull", "Run directory to create."),
)
@output_options
def command(chosen: Chosen, baud: int | None, directory: Path, output: OutputOptions) -> None:
    """Read the last trace from a board that is already running."""
    from harness.runs.pull import pull

    with output.stages() as stages:
        outcome = pull(chosen, baud, directory, stages)
    show_outcome(output, outcome, directory)
