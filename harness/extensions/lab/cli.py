"""``etharness lab``: the units of a lab."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from harness.cli import listed_group
from harness.cli.command import (
    FilePath,
    OutputOptions,
    PanelCommand,
    complete_units,
    duration,
    option,
    output_options,
    panel,
    units_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from harness.config.unit import Unit
    from harness.extensions.lab.health import Health
    from harness.extensions.lab.power import Action

_Found = TypeVar("_Found")

COMMANDS = {
    "units": "List the units of the lab: port, power control and lease holder.",
    "ports": "List the serial ports of this host, their units and their lease holders.",
    "who": "Show who holds units and ports, since when and why.",
    "status": "Show who holds each unit and who waits for it.",
    "lease": "Lease units for some time.",
    "release": "End the leases of units.",
    "health": "Check units: port, firmware, clock, crash record and serial line.",
    "power": "Switch the power of a unit.",
}


def _print(output: OutputOptions, found: _Found, show: Callable[[Console, _Found], None]) -> None:
    """Print what a command found: as JSON, or for people."""
    if output.json:
        output.print_json(found)
    else:
        show(output.console(), found)


def _named(names: tuple[str, ...], file: Path | None) -> list[Unit] | None:
    """Return the units of these names; None without names."""
    from harness.config.unit import find_unit

    return [find_unit(name, file) for name in names] or None


@click.group(name="lab", cls=listed_group({"Commands": COMMANDS}, "Boards over time"))
def command() -> None:
    """List, lease, examine and power-cycle the units of a lab.

    A unit is one physical board, described in units.toml (`etharness explain lab`).
    Every subcommand takes
    --units FILE to name another file, and --json.
    """


@command.command(name="units", cls=PanelCommand)
@units_option
@output_options
def units_command(units: Path | None, output: OutputOptions) -> None:
    """List the units of the lab: port, power control and lease holder."""
    from harness.config.unit import load_units
    from harness.extensions.lab import inventory

    found = inventory.units(load_units(units))
    _print(output, found, inventory.show_units)


@command.command(name="ports", cls=PanelCommand)
@units_option
@output_options
def ports_command(units: Path | None, output: OutputOptions) -> None:
    """List the serial ports of this host, their units and their lease holders."""
    from harness.extensions.lab import inventory
    from harness.target.selection import lab_units

    found = inventory.ports(lab_units(units))
    _print(output, found, inventory.show_ports)


@command.command(name="who", cls=PanelCommand)
@click.argument("names", metavar="[UNIT]...", nargs=-1, shell_complete=complete_units)
@units_option
@output_options
def who_command(names: tuple[str, ...], units: Path | None, output: OutputOptions) -> None:
    """Show who holds units and ports, since when and why.

    Without UNIT, show every lease on this host.
    """
    from harness.extensions.lab import inventory
    from harness.target.selection import lab_units

    found = inventory.who(lab_units(units), _named(names, units))
    _print(output, found, inventory.show_holders)


@command.command(name="status", cls=PanelCommand)
@click.argument("names", metavar="[UNIT]...", nargs=-1, shell_complete=complete_units)
@units_option
@output_options
def status_command(names: tuple[str, ...], units: Path | None, output: OutputOptions) -> None:
    """Show who holds each unit and who waits for it.

    Those who wait are listed in the order in which they get the unit. Without UNIT, show all units
    of the lab. An end with ~ is an estimate of the holder.
    """
    from harness.config.unit import load_units
    from harness.extensions.lab import inventory

    found = inventory.status(_named(names, units) or load_units(units))
    _print(output, found, inventory.show_status)


@command.command(name="lease", cls=PanelCommand)
@click.argument("names", metavar="UNIT...", nargs=-1, required=True, shell_complete=complete_units)
@panel(
    "Lease",
    option(
        "--for",
        "seconds",
        required=True,
        metavar="TIME",
        callback=duration,
        help="Duration of the lease: 2h, 90m, 1d or 1h30m.",
    ),
    option(
        "--wait",
        "wait_s",
        metavar="TIME",
        callback=duration,
        help="Longest wait in line for units in use, such as 30m. Default: do not wait.",
    ),
    option(
        "--reason", default="", metavar="REASON", help="Reason, shown to others who want the unit."
    ),
)
@units_option
@output_options
def lease_command(
    names: tuple[str, ...],
    seconds: int,
    wait_s: int | None,
    reason: str,
    units: Path | None,
    output: OutputOptions,
) -> None:
    """Lease units for some time.

    The lease ends at its time, or with `etharness lab release`. Meanwhile your own commands on
    this host can use the units; others need the printed token in $ETHARNESS_LEASE.

    With --wait, units in use are leased when it is your turn.
    """
    from harness.extensions.lab.holding import lease

    leased = lease(_named(names, units) or (), seconds, reason=reason, wait_s=wait_s or 0)
    if output.json:
        output.print_json(leased)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for unit in leased if output.verbosity >= 0 else ():
        show_line(console, f"{unit.unit}: leased until {unit.until_utc}")
    tokens = ",".join(unit.token for unit in leased)
    show_line(console, f"to use the lease elsewhere: export ETHARNESS_LEASE={tokens}")


@command.command(name="release", cls=PanelCommand)
@click.argument("names", metavar="UNIT...", nargs=-1, required=True, shell_complete=complete_units)
@option("--force", is_flag=True, help="Also end leases of other people and of running processes.")
@units_option
@output_options
def release_command(
    names: tuple[str, ...], force: bool, units: Path | None, output: OutputOptions
) -> None:
    """End the leases of units.

    A process that holds a unit keeps it until it notices the request, or ends.
    """
    from harness.extensions.lab.holding import release

    released = release(_named(names, units) or (), force=force)
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


@command.command(name="health", cls=PanelCommand)
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
def health_command(
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
    from harness.config.unit import load_units
    from harness.extensions.lab.health import examine, heal

    def ask(unit: Unit) -> Health:
        return examine(unit, goodput=line, rates=rates, image=image)

    found = _named(names, units) or load_units(units)
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
        from harness.extensions.lab.health import show_health

        console = output.console()
        for health in healths:
            show_health(console, health, verbosity=output.verbosity)
    return max((health.exit_code for health in healths), default=0)


@command.command(name="power", cls=PanelCommand)
@click.argument("unit", shell_complete=complete_units)
@click.argument("action", type=click.Choice(["on", "off", "cycle"]))
@units_option
@output_options
def power_command(unit: str, action: Action, units: Path | None, output: OutputOptions) -> None:
    """Switch the power of a unit.

    ``cycle`` switches it off and on again. After ``on`` and ``cycle`` the serial port of the unit
    must come back; otherwise the exit code is 75.
    """
    from harness.config.unit import find_unit
    from harness.extensions.lab.power import show_switched, switch

    switched = switch(find_unit(unit, units), action)
    _print(output, switched, partial(show_switched, verbosity=output.verbosity))
