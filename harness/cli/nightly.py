"""``etharness nightly``: models on all boards of a shelf, by a plan."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.board_options import units_option
from harness.cli.common import OutputOptions, output_options
from harness.cli.paths import FilePath

if TYPE_CHECKING:
    from harness.nightly.orchestrator import Prepared


@click.command(name="nightly")
@click.argument("plan", type=FilePath())
@units_option
@click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="UNIT/MODEL",
    help="Only what this pattern means, such as 'h743-*/kws*'. May be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, in which order.")
@click.option(
    "--quarantine-status", is_flag=True, help="Say how the entries of its quarantine stand."
)
@click.option("--fresh", is_flag=True, help="Begin a new night, also if one is not finished.")
@output_options
def command(
    plan: Path,
    units: Path | None,
    patterns: tuple[str, ...],
    dry_run: bool,
    quarantine_status: bool,
    fresh: bool,
    output: OutputOptions,
) -> int:
    """Run models on all boards of a shelf, by a plan.

    A night that was not finished goes on where it was. The exit code says whose the worst failure
    is: 0 nothing failed; 1 the product's; 2 the test's; 4 a board's; 74 flashing; 76 a link's;
    71 this host's; 130 interrupted.
    """
    from harness.nightly.orchestrator import prepare
    from harness.report.night_terminal import ProgressPrinter, show_night, show_schedule

    prepared = prepare(plan, units, patterns)
    if dry_run:
        show_schedule(output.console(), prepared.all_steps, str(prepared.output))
        return 0
    if quarantine_status:
        return _quarantine_status(prepared, output)
    from harness.nightly.finish import run_nightly
    from harness.nightly.journal import Ended, OfUnit, Record
    from harness.report import formats

    teller = ProgressPrinter(len(prepared.all_steps), quiet=output.json or output.verbosity < 0)

    def on_record(record: Record) -> None:
        if isinstance(record, Ended):
            teller.ended(record.step, record.attempt)
        elif isinstance(record, OfUnit):
            teller.happened(record.event)

    document = run_nightly(
        prepared, units, formats, fresh=fresh, on_record=on_record, on_message=teller.say
    )
    if output.json:
        from harness.records.result import encode

        click.echo(encode(document), nl=False)
    else:
        show_night(output.console(), document, verbosity=output.verbosity)
    return document.exit_code


def _quarantine_status(prepared: Prepared, output: OutputOptions) -> int:
    """Say how the entries stand; 1 when one of them should be removed."""
    from harness.nightly.finish import quarantine_of
    from harness.report.night_tables import quarantine_table
    from harness.report.terminal import show_table

    entries = quarantine_of(prepared, datetime.now(UTC).date())
    if output.json:
        from harness.records.result import encode

        click.echo(encode(entries), nl=False)
    else:
        table = quarantine_table(entries)
        show_table(output.console(), table.headers, table.rows, title=table.title)
    return int(any(entry.state != "applies" for entry in entries))
