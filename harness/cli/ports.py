"""``etharness ports``: the serial ports of this host."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.lab import inventory
from harness.lab.units import lab_units


@click.command(name="ports")
@units_option
@output_options
def command(units: Path | None, output: OutputOptions) -> None:
    """List the serial ports of this host, whose they are and who holds them."""
    found = inventory.ports(lab_units(units))
    if output.json:
        from harness.records.result import encode

        click.echo(encode(found), nl=False)
        return
    from harness.report.leases import show_ports

    show_ports(output.console(), found)
