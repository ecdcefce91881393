"""``etharness lab status``: holders and queues of units."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completers import complete_units
from harness.cli.options import PanelCommand, output_options, units_option
from harness.cli.output import OutputOptions


@click.command(name="status", cls=PanelCommand)
@click.argument("names", metavar="[UNIT]...", nargs=-1, shell_complete=complete_units)
@units_option
@output_options
def command(names: tuple[str, ...], units: Path | None, output: OutputOptions) -> None:
    """Show who holds each unit and who waits for it.

    Those who wait are listed in the order in which they get the unit. Without UNIT, show all units
    of the lab. An end with ~ is an estimate of the holder.
    """
    from harness.config.unit import find_unit, load_units
    from harness.lab import inventory

    asked = [find_unit(name, units) for name in names] if names else load_units(units)
    found = inventory.status(asked)
    if output.json:
        output.print_json(found)
        return
    from harness.report.lab import show_status

    show_status(output.console(), found)
