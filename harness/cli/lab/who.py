"""``etharness lab who``: the lease holders."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completers import complete_units
from harness.cli.options import PanelCommand, output_options, units_option
from harness.cli.output import OutputOptions


@click.command(name="who", cls=PanelCommand)
@click.argument("names", metavar="[UNIT]...", nargs=-1, shell_complete=complete_units)
@units_option
@output_options
def command(names: tuple[str, ...], units: Path | None, output: OutputOptions) -> None:
    """Show who holds units and ports, since when and why.

    Without UNIT, show every lease on this host.
    """
    from harness.config.unit import find_unit
    from harness.lab import inventory
    from harness.lab.units import lab_units

    asked = [find_unit(name, units) for name in names] if names else None
    found = inventory.who(lab_units(units), asked)
    if output.json:
        output.print_json(found)
        return
    from harness.report.lab import show_holders

    show_holders(output.console(), found)
