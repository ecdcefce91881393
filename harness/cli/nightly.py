"""``etharness nightly``: models on all boards of a shelf, by a plan."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, output_options


@click.command(name="nightly")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--units",
    "units_file",
    type=click.Path(path_type=Path),
    help="The lab's units.  [default: $ETHARNESS_UNITS, or units.toml]",
)
@click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="UNIT/MODEL",
    help="Only what this pattern means, such as 'h743-*/kws*'. May be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, in which order.")
@click.option("--fresh", is_flag=True, help="Begin a new night, also if one is not finished.")
@output_options
def command(
    plan: Path,
    units_file: Path | None,
    patterns: tuple[str, ...],
    dry_run: bool,
    fresh: bool,
    output: Output,
) -> int:
    """Run models on all boards of a shelf, by a plan.

    A night that was not finished goes on where it was. The exit code says whose the worst failure
    is: 0 nothing failed; 1 the product's; 2 the test's; 4 a board's; 74 flashing; 76 a link's;
    71 this host's; 130 interrupted.
    """
    from harness.lab.night.night import prepare
    from harness.report.night_terminal import Teller, show_night, show_schedule

    prepared = prepare(plan, units_file, patterns)
    if dry_run:
        show_schedule(output.console(), prepared.all_steps, str(prepared.output))
        return 0
    from harness.lab.night.journal import Ended, OfUnit, Record
    from harness.lab.night.whole import whole_night

    teller = Teller(len(prepared.all_steps), quiet=output.json or output.verbosity < 0)

    def told(record: Record) -> None:
        if isinstance(record, Ended):
            teller.ended(record.step, record.attempt)
        elif isinstance(record, OfUnit):
            teller.happened(record.event)

    document = whole_night(prepared, units_file, fresh=fresh, told=told, said=teller.say)
    if output.json:
        from harness.result import encode

        click.echo(encode(document), nl=False)
    else:
        show_night(output.console(), document, verbosity=output.verbosity)
    return document.exit_code
