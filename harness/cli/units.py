"""``etharness units``: the boards that the lab's file describes."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, output_options
from harness.cli.where import units_option
from harness.lab import inventory
from harness.unit import load_units


@click.command(name="units")
@units_option
@output_options
def command(units: Path | None, output: Output) -> None:
    """List the units of the lab: where each is, and who holds it."""
    found = inventory.units(load_units(units))
    if output.json:
        from harness.result import encode

        click.echo(encode(found), nl=False)
        return
    from harness.report.leases import show_units

    show_units(output.console(), found)
