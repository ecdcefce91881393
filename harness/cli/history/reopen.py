"""``etharness history reopen``: undo the decision about a change."""

from __future__ import annotations

import click

from harness.cli.history.change import ChangeOptions, change_options, record_decision
from harness.cli.history.options import history_option
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="reopen", cls=PanelCommand)
@change_options(reason_required=False)
@history_option
@output_options
def command(change: ChangeOptions, url: str | None, output: OutputOptions) -> None:
    """Undo the decision about a change: its baseline is the one before the change again.

    PATTERN selects a series as for `etharness history accept`.
    """
    record_decision("reopened", change, url, output)
