"""``etharness lab ports``: the serial ports of this host."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import PanelCommand, output_options, units_option
from harness.cli.output import OutputOptions


@click.command(name="ports", cls=PanelCommand)
@units_option
@output_options
def command(units: Path | None, output: OutputOptions) -> None:
    """List the serial ports of this host, their units and their lease holders."""
    from harness.lab import inventory
    from harness.lab.units import lab_units

    found = inventory.ports(lab_units(units))
    if output.json:
        output.print_json(found)
        return
    from harness.report.lab import show_ports

    show_ports(output.console(), found)
