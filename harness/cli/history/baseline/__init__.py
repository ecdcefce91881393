"""``etharness history baseline``: results with names."""

from __future__ import annotations

import click

from harness.cli.lazy import lazy_group

COMMANDS = {
    "set": "Give results a name.",
    "list": "List the names.",
    "remove": "Forget a name, but not its results.",
}


@click.group(name="baseline", cls=lazy_group(__name__, COMMANDS))
def command() -> None:
    """Give results a name that later ones are held against.

    A baseline is written as name:NAME, commit:PREFIX or last:COUNT. Every subcommand takes --json.
    """
