"""Options that select the board or unit of a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.cli.completers import complete_boards, complete_units
from harness.cli.options import with_options
from harness.cli.panels import TARGET, option, panel
from harness.cli.paths import FilePath, absolute_name

_F = TypeVar("_F", bound=Callable[..., Any])

_units = option(
    "--units",
    metavar="FILE",
    type=FilePath(),
    is_eager=True,  # completion of --unit reads this file
    help="Unit file of the lab.  [default: $ETHARNESS_UNITS, ./units.toml, or "
    "~/.config/etdump-harness/units.toml]",
)

units_option = panel(TARGET, _units)
"""``--units``, passed as the path ``units``, or None for the lab's own file."""

baud_option = panel(
    TARGET,
    option(
        "--baud",
        metavar="RATE",
        type=click.IntRange(min=1),
        help="Switch the serial line to this rate, bits per second.  [default: the best rate of "
        "the unit or board file]",
    ),
)
"""``--baud``, passed as a number, or None."""


def target_options(function: _F) -> _F:
    """Add ``--board --unit --units --port``; pass the selected board as ``chosen``."""
    return _with_chosen(function, needed=True)


def optional_target_options(function: _F) -> _F:
    """Add the same options; ``chosen`` is None if no board is selected."""
    return _with_chosen(function, needed=False)


def _with_chosen(function: _F, *, needed: bool) -> _F:

    def collect(
        *args: Any,
        board: str | None,
        unit: str | None,
        units: Path | None,
        port: str | None,
        **kwargs: Any,
    ) -> Any:
        from harness.lab.units import choose

        selected = needed or any((board, unit, port))
        chosen = choose(board, unit, port, units) if selected else None
        return function(*args, chosen=chosen, **kwargs)

    return with_options(
        function,
        collect,
        panel(
            TARGET,
            option(
                "--board",
                metavar="BOARD",
                callback=absolute_name,
                shell_complete=complete_boards,
                help="Board type: a name (see `etharness boards`) or a board file.  [default: the "
                "unit's]",
            ),
            option(
                "--unit",
                metavar="UNIT",
                shell_complete=complete_units,
                help="Lab unit (see `etharness lab units`); sets board and port. With --board it "
                "only labels results.  [default: the port]",
            ),
            _units,
            option(
                "-p",
                "--port",
                metavar="PORT",
                callback=absolute_name,
                help="Serial port of the board: a device or a URL (docs/remote.md).  [default: "
                "the unit's]",
            ),
        ),
    )
