"""``etharness nightly``: run a plan of models on the boards of a rack."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    FilePath,
    OutputOptions,
    PanelCommand,
    option,
    output_options,
    panel,
    units_option,
)
from harness.printing import counted, print_message

if TYPE_CHECKING:
    from harness.extensions.lab.nightly.journal import Record
    from harness.extensions.lab.nightly.live import ProgressPrinter
    from harness.extensions.lab.nightly.night import Prepared
    from harness.records.nightly import NightDocument


class _NightlyCommand(PanelCommand):
    """The command, whose exit codes are others than those of a run."""

    exit_codes = (
        "The exit code names the owner of the worst failure: 0 none; 1 product; 2 test; 4 board; "
        "74 flashing; 76 link; 71 this host; 130 interrupted."
    )


@click.command(name="nightly", cls=_NightlyCommand)
@click.argument("plan", type=FilePath())
@units_option
@panel(
    "Plan",
    option(
        "--only",
        "patterns",
        multiple=True,
        metavar="UNIT/MODEL",
        help="Run only steps that match this pattern, such as 'h743-*/kws*'. Repeatable.",
    ),
    option("--dry-run", is_flag=True, help="Print the steps in their order without running them."),
    option(
        "--quarantine-status",
        is_flag=True,
        help="Print the state of each quarantine entry; exit with 1 if one should be removed.",
    ),
    option(
        "--site",
        metavar="DIR",
        type=FilePath(),
        help="Write the site of the plan's history to this folder while the nightly run is under "
        "way; see `etharness site`.",
    ),
    option(
        "--fresh",
        is_flag=True,
        help="Start a new nightly run, even if the last one is unfinished.",
    ),
)
@output_options
def command(
    plan: Path,
    units: Path | None,
    patterns: tuple[str, ...],
    dry_run: bool,
    quarantine_status: bool,
    fresh: bool,
    site: Path | None,
    output: OutputOptions,
) -> int:
    """Run models on all boards of a rack, according to a plan.

    An unfinished nightly run is resumed.
    """
    from harness.extensions.lab.nightly.beforehand import misfits, unreachable
    from harness.extensions.lab.nightly.live import ProgressPrinter, show_night, show_schedule
    from harness.extensions.lab.nightly.night import prepare

    prepared = prepare(plan, units, patterns)
    if dry_run:
        show_schedule(output.console(), prepared.all_steps, str(prepared.output))
        return _show_mistakes(prepared, output)
    if quarantine_status:
        return _quarantine_status(prepared, output)
    printer = ProgressPrinter(prepared.all_steps, quiet=output.json or output.verbosity < 0)
    for trouble in (*misfits(prepared), *unreachable(prepared.units)):
        print_message(f"warning: {trouble.message}", error=True)
    document = _run(prepared, units, printer, site, fresh=fresh)
    if output.json:
        output.print_json(document)
    else:
        show_night(output.console(), document, verbosity=output.verbosity)
    return document.exit_code


command.section = "Boards over time"


def _run(
    prepared: Prepared,
    units: Path | None,
    printer: ProgressPrinter,
    site: Path | None,
    *,
    fresh: bool,
) -> NightDocument:
    """Run the plan to its end, and write the site meanwhile if there is one."""
    from harness.extensions.lab.nightly.journal import Ended, OfUnit, Started
    from harness.extensions.lab.nightly.night import run_nightly

    def show(record: Record) -> None:
        if isinstance(record, Started):
            printer.started(record.step)
        elif isinstance(record, Ended):
            printer.ended(record.step, record.attempt)
        elif isinstance(record, OfUnit):
            printer.happened(record.event)

    run = partial(run_nightly, prepared, units, fresh=fresh, on_message=printer.say)
    if site is None:
        return run(on_record=show)
    from harness.extensions.lab.nightly.live import LiveSite

    def show_and_write(record: Record) -> None:
        show(record)
        live.learn(record)

    with LiveSite(prepared, site) as live:
        document = run(on_begin=live.begin, on_record=show_and_write)
        live.finish(document)
    if live.failures:
        updates = f"{live.failures} of {counted(live.updates, 'update')} of the site failed"
        print_message(f"warning: {site}: {updates}, the last one: {live.reason}", error=True)
    return document


def _show_mistakes(prepared: Prepared, output: OutputOptions) -> int:
    """Print what would fail in every run that it concerns; return the exit code of the worst."""
    from harness.extensions.lab.nightly.beforehand import misfits, unreachable
    from harness.extensions.lab.nightly.verdict import exit_code_of
    from harness.records.nightly import STATES_OF_COUNTS
    from harness.report.terminal import show_line
    from harness.report.words import word_of

    found = [*misfits(prepared), *unreachable(prepared.units)]
    for trouble in found:
        what = word_of(STATES_OF_COUNTS[trouble.owner])
        show_line(output.console(), f"{what}: {trouble.message}", style="bold red")
        if trouble.hint:
            show_line(output.console(), f"  try: {trouble.hint}", indent=7)
    return exit_code_of((), (), found)


def _quarantine_status(prepared: Prepared, output: OutputOptions) -> int:
    """Print the state of each quarantine entry; return 1 if one should be removed, else 0."""
    from harness.extensions.lab.nightly.night import quarantine_of
    from harness.report.nightly import quarantine_table
    from harness.report.terminal import show_table

    entries = quarantine_of(prepared, datetime.now(UTC).date())
    if output.json:
        output.print_json(entries)
    else:
        table = quarantine_table(entries)
        show_table(output.console(), table.headers, table.rows, title=table.title)
    return int(any(entry.state != "applies" for entry in entries))
