"""``etharness history accept``: make the new level of a series its baseline."""

from __future__ import annotations

import click

from harness.cli.history.change import ChangeOptions, change_options, record_decision
from harness.cli.history.options import history_option
from harness.cli.options import PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="accept", cls=PanelCommand)
@change_options(reason_required=True)
@history_option
@output_options
def command(change: ChangeOptions, url: str | None, output: OutputOptions) -> None:
    """Accept a change: its new level becomes the baseline of the series.

    PATTERN selects an operator, allocator or size of one unit by its name, or by its text in a
    check, such as 'native_call_conv.out, instruction 4'. The level begins with the newest night,
    unless --since or --commit names an earlier one. With --until, the earlier baseline counts
    again after that day.
    """
    record_decision("accepted", change, url, output)
