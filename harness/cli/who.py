"""``etharness who``: who holds which boards."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.config.unit import find_unit
from harness.lab import inventory
from harness.lab.units import lab_units


@click.command(name="who")
@click.argument("names", metavar="[UNIT]...", nargs=-1)
@units_option
@output_options
def command(names: tuple[str, ...], units: Path | None, output: OutputOptions) -> None:
    """Say who holds which boards, since when, and why.

    Without UNIT: of everything that anybody holds on this host.
    """
    asked = [find_unit(name, units) for name in names] if names else None
    found = inventory.who(lab_units(units), asked)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(found), nl=False)
        return
    from harness.report.leases import show_holders

    show_holders(output.console(), found)
