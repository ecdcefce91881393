"""``etharness history copy``: copy the history to another file or database."""

from __future__ import annotations

import click

from harness.cli.history.options import opened
from harness.cli.options import PanelCommand, absolute_history, option, output_options, panel
from harness.cli.output import OutputOptions


@click.command(name="copy", cls=PanelCommand)
@click.argument("source", metavar="FROM", callback=absolute_history)
@click.argument("target", metavar="TO", callback=absolute_history)
@panel(
    "Differences",
    option(
        "--replace-verdicts",
        is_flag=True,
        help="Replace verdicts in TO that differ from those in FROM.",
    ),
)
@output_options
def command(source: str, target: str, replace_verdicts: bool, output: OutputOptions) -> None:
    """Copy the history to another file or database.

    FROM and TO are SQLite files or postgresql://USER@HOST/DATABASE. Results, named baselines and
    decisions are copied; TO keeps what it has. Run the command again after an interruption: it
    continues. At the end the results of both are compared. The exit code is 2 if one differs.
    """
    with (
        opened(source) as here,
        opened(target, create=True) as there,
        output.stages() as stages,
    ):
        outcome = here.copy_to(there, replace_verdicts=replace_verdicts, progress=stages)
        location = there.location
    if output.json:
        output.print_json(outcome)
    elif output.verbosity >= 0:
        replaced = f", {outcome.verdicts:,} verdicts replaced" if outcome.verdicts else ""
        output.print_line(
            f"{location}: {outcome.copied:,} results, {outcome.baselines:,} baselines and "
            f"{outcome.decisions:,} decisions copied{replaced}; "
            f"{outcome.results:,} results compared"
        )
