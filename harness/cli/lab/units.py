"""``etharness lab units``: the units of the lab."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import PanelCommand, output_options, units_option
from harness.cli.output import OutputOptions


@click.command(name="units", cls=PanelCommand)
@units_option
@output_options
def command(units: Path | None, output: OutputOptions) -> None:
    """List the units of the lab: port, power control and lease holder."""
    from harness.config.unit import load_units
    from harness.lab import inventory

    found = inventory.units(load_units(units))
    if output.json:
        output.print_json(found)
        return
    from harness.report.lab import show_units

    show_units(output.console(), found)
