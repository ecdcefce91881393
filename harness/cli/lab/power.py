"""``etharness lab power``: switch the power of a unit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.completers import complete_units
from harness.cli.options import PanelCommand, output_options, units_option
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.lab.power import Action


@click.command(name="power", cls=PanelCommand)
@click.argument("unit", shell_complete=complete_units)
@click.argument("action", type=click.Choice(["on", "off", "cycle"]))
@units_option
@output_options
def command(unit: str, action: Action, units: Path | None, output: OutputOptions) -> None:
    """Switch the power of a unit.

    ``cycle`` switches it off and on again. After ``on`` and ``cycle`` the serial port of the unit
    must come back; otherwise the exit code is 75.
    """
    from harness.config.unit import find_unit
    from harness.lab.power import switch

    switched = switch(find_unit(unit, units), action)
    if output.json:
        output.print_json(switched)
        return
    from harness.report.lab import show_switched

    show_switched(output.console(), switched, verbosity=output.verbosity)
