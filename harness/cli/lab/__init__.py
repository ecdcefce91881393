"""``etharness lab``: the units of a lab, one module per subcommand."""

from __future__ import annotations

import click

from harness.cli import lazy_group

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


@click.group(name="lab", cls=lazy_group(__name__, {"Commands": COMMANDS}))
def command() -> None:
    """List, lease, examine and power-cycle the units of a lab.

    A unit is one physical board, described in units.toml (`etharness explain lab`).
    Every subcommand takes
    --units FILE to name another file, and --json.
    """
