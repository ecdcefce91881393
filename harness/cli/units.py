"""``etharness units``: the boards that the lab's file describes."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.config.unit import load_units
from harness.lab import inventory


@click.command(name="units")
@units_option
@output_options
def command(units: Path | None, output: OutputOptions) -> None:
    """List the units of the lab: where each is, and who holds it."""
    found = inventory.units(load_units(units))
    if output.json:
        from harness.records.result import encode

        click.echo(encode(found), nl=False)
        return
    from harness.report.leases import show_units

    show_units(output.console(), found)
