"""``etharness power``: switch the power of a unit."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.config.unit import find_unit
from harness.lab.power import Action, switch


@click.command(name="power")
@click.argument("unit")
@click.argument("action", type=click.Choice(["on", "off", "cycle"]))
@units_option
@output_options
def command(unit: str, action: Action, units: Path | None, output: OutputOptions) -> None:
    """Switch the power of a unit on or off.

    ``cycle`` is off and on again. Once it is on, its port must be there again: else exit code 75.
    """
    found = find_unit(unit, units)
    switched = switch(found, action)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(switched), nl=False)
        return
    from harness.report.power import show_switched

    show_switched(output.console(), switched, verbosity=output.verbosity)
