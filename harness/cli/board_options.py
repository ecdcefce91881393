"""The options that say which board a command is for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.cli.common import with_options
from harness.cli.paths import FilePath, absolute_name

_F = TypeVar("_F", bound=Callable[..., Any])

units_option = click.option(
    "--units",
    metavar="FILE",
    type=FilePath(),
    help="The lab's units.  [default: $ETHARNESS_UNITS, ./units.toml, or "
    "~/.config/etdump-harness/units.toml]",
)


def chosen_options(function: _F) -> _F:
    """Add ``--board --unit --units --port``, and pass what they choose as one ``chosen``."""
    return _with_chosen(function, needed=True)


def optional_chosen_options(function: _F) -> _F:
    """The same for a command that may do without a board: None when none of them is given."""
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

        said = needed or any((board, unit, port))
        return function(*args, chosen=choose(board, unit, port, units) if said else None, **kwargs)

    return with_options(
        function,
        collect,
        click.option(
            "-p",
            "--port",
            callback=absolute_name,
            help="Serial port of the board, if its unit does not say.",
        ),
        units_option,
        click.option(
            "--unit",
            help="A unit of the lab (see `etharness units`), which says board and port; or, with "
            "--board, what results call it.  [default: its port]",
        ),
        click.option(
            "--board",
            callback=absolute_name,
            help="Board name (see `etharness boards`) or board file, if no unit of the lab says.",
        ),
    )
