"""``etharness health``: how units of the lab are."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath
from harness.config.unit import Unit, find_unit, load_units
from harness.lab.health import examine, heal
from harness.records.health import Health


@click.command(name="health")
@click.argument("names", nargs=-1, metavar="[UNIT]...")
@units_option
@click.option("--line", is_flag=True, help="Measure what the line carries, at a run's rate.")
@click.option("--rates", is_flag=True, help="The same at every rate, and say the best.")
@click.option(
    "--image",
    type=FilePath(),
    help="The firmware that they should run; --heal flashes it where another runs.",
)
@click.option(
    "--heal",
    "healing",
    is_flag=True,
    help="If one is not well: open its port again, reset it, cycle its power, and look again.",
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
    """Ask units how they are: their port, firmware, clock, crashes and line.

    All units of the lab if none is named. Exit code 0: all are well; else the largest of those of
    their failures. What is on a board stays, except that --line and --rates bring their own model.
    """

    def ask(unit: Unit) -> Health:
        return examine(unit, goodput=line, rates=rates, image=image)

    found = [find_unit(name, units) for name in names] if names else list(load_units(units))
    with output.stages() as stages:
        healths = []
        for index, unit in enumerate(found):
            stages(f"asking {unit.id}", index, len(found))
            health = ask(unit)
            if healing and not health.healthy:
                health = heal(unit, health, ask, image)
            healths.append(health)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(healths), nl=False)
    else:
        from harness.report.health import show_health

        console = output.console()
        for health in healths:
            show_health(console, health, verbosity=output.verbosity)
    return max((health.exit_code for health in healths), default=0)
