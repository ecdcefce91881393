"""``etharness history``: results through time, one file per subcommand."""

from __future__ import annotations

import click

from harness.cli.lazy import lazy_group

COMMANDS = {
    "add": "Add run directories.",
    "list": "List results.",
    "show": "Show how what was measured changed.",
    "baseline": "Give results a name that later ones are held against.",
    "export": "Write all numbers of results as a table.",
    "prune": "Remove old results.",
    "info": "Say where the history is and how much it holds.",
}


@click.group(name="history", cls=lazy_group(__name__, COMMANDS))
def command() -> None:
    """Keep results, and see how they changed.

    The history is an SQLite file, `.etharness/history.sqlite` near the project, or what --history
    or $ETHARNESS_HISTORY says: a path, or postgresql://USER@HOST/DATABASE (docs/history.md). Every
    subcommand takes --history, and --json.
    """
