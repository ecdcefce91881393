"""``etharness lab health``: the condition of units."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.completers import complete_units
from harness.cli.options import FilePath, PanelCommand, option, output_options, panel, units_option
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.config.unit import Unit
    from harness.records.lab import Health


@click.command(name="health", cls=PanelCommand)
@click.argument("names", nargs=-1, metavar="[UNIT]...", shell_complete=complete_units)
@units_option
@panel(
    "Checks",
    option(
        "--line",
        is_flag=True,
        help="Measure throughput and losses of the line at the rate that a run uses.",
    ),
    option(
        "--rates",
        is_flag=True,
        help="Measure the same at every rate and report the best rate.",
    ),
    option(
        "--image",
        metavar="FILE",
        type=FilePath(),
        help="Check that the units run this firmware; with --heal, flash it if they do not.",
    ),
    option(
        "--heal",
        "healing",
        is_flag=True,
        help="If a unit fails, reopen its port, reset it and power-cycle it, then check it again.",
    ),
)
@output_options
def command(
    names: tuple[str, ...],
    units: Path | None,
    line: bool,
    rates: bool,
    image: Path | None,
    healing: bool,
    output: OutputOptions,
) -> int:
    """Check units: port, firmware, clock, crash record and serial line.

    Without UNIT, check all units of the lab. The exit code is 0 if all are healthy, otherwise the
    largest exit code of their failures. A check leaves model and trace on the board, except that
    --line and --rates upload their own model.
    """
    from harness.config.unit import find_unit, load_units
    from harness.lab.health import examine
    from harness.lab.repair import heal

    def ask(unit: Unit) -> Health:
        return examine(unit, goodput=line, rates=rates, image=image)

    found = [find_unit(name, units) for name in names] if names else list(load_units(units))
    with output.stages() as stages:
        healths = []
        for index, unit in enumerate(found):
            stages(f"checking {unit.id}", index, len(found))
            health = ask(unit)
            if healing and not health.healthy:
                health = heal(unit, health, ask, image)
            healths.append(health)
    if output.json:
        output.print_json(healths)
    else:
        from harness.report.lab import show_health

        console = output.console()
        for health in healths:
            show_health(console, health, verbosity=output.verbosity)
    return max((health.exit_code for health in healths), default=0)
