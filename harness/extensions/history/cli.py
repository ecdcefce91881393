"""``etharness history``: the group, whose subcommands are imported when one is called."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

from harness.cli import listed_group

COMMANDS = {
    "add": "Add run directories.",
    "list": "List results.",
    "show": "Show how times and sizes changed.",
    "baseline": "Name results as a baseline for later ones.",
    "accept": "Accept a change as the new baseline.",
    "ignore": "Let a change pass until a date.",
    "reopen": "Undo the decision about a change.",
    "export": "Write all measured values as a table.",
    "copy": "Copy the history to a new file or an empty database.",
    "prune": "Remove old results.",
    "info": "Show the location, version and size of the history.",
}


class _History(listed_group({"Commands": COMMANDS}, "Boards over time")):  # type: ignore[misc]
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        import_module("harness.extensions.history.commands")  # it adds them
        command: click.Command | None = super().get_command(ctx, cmd_name)
        return command


@click.group(name="history", cls=cast("type[click.Group]", _History))
def history_command() -> None:
    """Store results and show how they changed.

    The history is the SQLite file `.etharness/history.sqlite` near the project, unless --history
    or $ETHARNESS_HISTORY names another file or postgresql://USER@HOST/DATABASE
    (`etharness explain history`).
    Every subcommand takes --json, and all but `copy` take --history.
    """
