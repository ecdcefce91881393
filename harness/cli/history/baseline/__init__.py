"""``etharness history baseline``: named baselines, one module per subcommand."""

from __future__ import annotations

import click

from harness.cli import lazy_group

COMMANDS = {
    "set": "Name results as a baseline.",
    "list": "List the named baselines.",
    "remove": "Remove the name of a baseline, but not its results.",
}


@click.group(name="baseline", cls=lazy_group(__name__, {"Commands": COMMANDS}))
def command() -> None:
    """Name results as a baseline for later ones.

    Options such as --baseline then take name:NAME, beside commit:PREFIX and last:COUNT.
    """
