"""``etharness pull``: read the last trace from a running board."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from harness.cli.firmware_options import probe_options
from harness.cli.options import (
    RESULTS,
    PanelCommand,
    baud_option,
    option,
    output_directory,
    output_options,
    panel,
    target_options,
)
from harness.cli.output import OutputOptions, show_outcome

if TYPE_CHECKING:
    from harness.lab.units import Chosen


_RUN_IN_PROGRESS: Final = "Run in progress"


@click.command(name="pull", cls=PanelCommand)
@target_options
@baud_option
@probe_options
@panel(
    _RUN_IN_PROGRESS,
    option(
        "--wait",
        "wait_s",
        metavar="[SECONDS]",
        is_flag=False,
        flag_value=math.inf,
        type=click.FloatRange(min=0),
        help="Wait for the end of a run that the board is executing.  [default: fail; without "
        "SECONDS, wait as long as it proceeds]",
    ),
    option(
        "--cancel",
        is_flag=True,
        help="End a run that the board is executing after its current execution.",
    ),
)
@panel(
    RESULTS,
    output_directory("out/pull", "Run directory to create."),
)
@output_options
def command(
    chosen: Chosen,
    baud: int | None,
    elf: Path | None,
    symbol: str | None,
    until: str | None,
    reset: str | None,
    wait_s: float | None,
    cancel: bool,
    directory: Path,
    output: OutputOptions,
) -> None:
    """Read the last trace from a board that is already running.

    Through a serial port the firmware's link sends it. Through a debug probe
    (gdb://HOST:PORT or pyocd://) it is read from memory, and the firmware needs only the tracer.
    """
    from harness.runs.probe import probe_request
    from harness.runs.pull import pull, pull_by_probe

    wanted = probe_request(chosen.port, elf, symbol, until, reset, baud)
    if wanted is not None and (cancel or wait_s is not None):
        raise click.UsageError("--wait and --cancel need the link of a serial port, not a probe")
    with output.stages() as stages:
        if wanted is not None:
            outcome = pull_by_probe(chosen, wanted, directory, stages)
        else:
            outcome = pull(chosen, baud, directory, stages, wait_s=wait_s, cancel=cancel)
    show_outcome(output, outcome, directory)
