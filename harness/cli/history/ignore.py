"""``etharness history ignore``: let a change pass until a date."""

from __future__ import annotations

import click

from harness.cli.history.change import ChangeOptions, change_options, record_decision
from harness.cli.history.options import history_option
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions
from harness.errors import UsageError


@click.command(name="ignore", cls=PanelCommand)
@change_options(reason_required=True)
@history_option
@output_options
def command(change: ChangeOptions, url: str | None, output: OutputOptions) -> None:
    """Ignore a change until a date: it is shown as a note and does not fail.

    PATTERN selects a series as for `etharness history accept`. A further regression beyond the
    ignored level still fails. After the last day the change fails again.
    """
    if change.until is None:
        raise UsageError(
            "an ignored change needs a last day",
            hint="add --until DATE; a change that is fine for good is accepted: `etharness history "
            "accept`",
        )
    record_decision("ignored", change, url, output)
