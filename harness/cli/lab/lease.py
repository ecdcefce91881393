"""``etharness lab lease``: reserve units for a person."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completers import complete_units
from harness.cli.options import PanelCommand, option, output_options, panel, units_option
from harness.cli.output import OutputOptions
from harness.cli.values import duration


@click.command(name="lease", cls=PanelCommand)
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
def command(
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

    With --wait, units in use are leased when it is your turn. In the working hours of units.toml
    (`people_first`) a nightly run gives a unit up after its current run.
    """
    from harness.config.unit import find_unit
    from harness.lab.units import lease

    chosen = [find_unit(name, units) for name in names]
    leased = lease(chosen, seconds, reason=reason, wait_s=wait_s or 0)
    if output.json:
        output.print_json(leased)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for unit in leased if output.verbosity >= 0 else ():
        show_line(console, f"{unit.unit}: leased until {unit.until_utc}")
    tokens = ",".join(unit.token for unit in leased)
    show_line(console, f"to use the lease elsewhere: export ETHARNESS_LEASE={tokens}")
