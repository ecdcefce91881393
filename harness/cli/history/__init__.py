"""``etharness history``: stored results, one module per subcommand."""

from __future__ import annotations

import click

from harness.cli import lazy_group

COMMANDS = {
    "add": "Add run directories.",
    "list": "List results.",
    "show": "Show how times and sizes changed.",
    "baseline": "Name results as a baseline for later ones.",
    "accept": "Accept a change as the new baseline.",
    "ignore": "Let a change pass until a date.",
    "reopen": "Undo the decision about a change.",
    "export": "Write all measured values as a table.",
    "copy": "Copy the history to another file or database.",
    "prune": "Remove old results.",
    "info": "Show the location, version and size of the history.",
}


@click.group(name="history", cls=lazy_group(__name__, {"Commands": COMMANDS}))
def command() -> None:
    """Store results and show how they changed.

    The history is the SQLite file `.etharness/history.sqlite` near the project, unless --history
    or $ETHARNESS_HISTORY names another file or postgresql://USER@HOST/DATABASE
    (`etharness explain history`).
    Every subcommand takes --json, and all but `copy` take --history.
    """
