"""``etharness lease``: hold units without a process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.config.unit import find_unit
from harness.lab.leases import lease

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _duration(_: click.Context, __: click.Parameter, text: str) -> Any:
    """Seconds of a text such as ``2h`` or ``1h30m``."""
    if not re.fullmatch(r"(\d{1,6}[smhd])+", text):
        raise click.BadParameter(f"{text!r} is no time; write 2h, 90m, 1d or 1h30m")
    return sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smhd])", text))


@click.command(name="lease")
@click.argument("names", metavar="UNIT...", nargs=-1, required=True)
@click.option("--for", "seconds", required=True, callback=_duration, help="How long: 2h, 90m, 1d.")
@click.option("--reason", default="", help="What for, to tell others.")
@units_option
@output_options
def command(
    names: tuple[str, ...], seconds: int, reason: str, units: Path | None, output: OutputOptions
) -> None:
    """Hold units for some time, with no process behind it.

    It ends by itself, or by `etharness release`. Your own commands on this host go through; others
    do with the token in $ETHARNESS_LEASE.
    """
    if not seconds:
        raise click.BadParameter("a lease for no time holds nothing", param_hint="--for")
    leased = lease([find_unit(name, units) for name in names], seconds, reason=reason)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(leased), nl=False)
        return
    from harness.report.terminal import show_line

    console = output.console()
    for unit in leased if output.verbosity >= 0 else ():
        show_line(console, f"{unit.unit} is yours until {unit.until_utc}")
    tokens = ",".join(unit.token for unit in leased)
    show_line(console, f"to act under it elsewhere: export ETHARNESS_LEASE={tokens}")
