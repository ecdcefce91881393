"""``etharness lab release``: end leases."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completers import complete_units
from harness.cli.options import PanelCommand, option, output_options, units_option
from harness.cli.output import OutputOptions


@click.command(name="release", cls=PanelCommand)
@click.argument("names", metavar="UNIT...", nargs=-1, required=True, shell_complete=complete_units)
@option("--force", is_flag=True, help="Also end leases of other people and of running processes.")
@units_option
@output_options
def command(names: tuple[str, ...], force: bool, units: Path | None, output: OutputOptions) -> None:
    """End the leases of units.

    A process that holds a unit keeps it until it notices the request, or ends.
    """
    from harness.config.unit import find_unit
    from harness.lab.units import release

    released = release([find_unit(name, units) for name in names], force=force)
    if output.json:
        output.print_json(released)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for unit in released if output.verbosity >= 0 else ():
        if not unit.ended:
            show_line(console, f"{unit.unit} was not leased")
        for holder in unit.ended:
            show_line(console, f"{unit.unit}: ended the lease of {holder}")
