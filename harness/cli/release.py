"""``etharness release``: let go what was leased."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.config.unit import find_unit
from harness.lab.leases import release


@click.command(name="release")
@click.argument("names", metavar="UNIT...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Also of others and of processes, who are told.")
@units_option
@output_options
def command(names: tuple[str, ...], force: bool, units: Path | None, output: OutputOptions) -> None:
    """Let go what was leased.

    A process that holds a unit keeps it until it has noticed that it was taken, or ends.
    """
    released = release([find_unit(name, units) for name in names], force=force)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(released), nl=False)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for unit in released if output.verbosity >= 0 else ():
        for whose in unit.ended or ("nobody",):
            show_line(console, f"{unit.unit} was held by {whose}")
