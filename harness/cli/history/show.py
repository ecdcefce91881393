"""``etharness history show``: show measured values over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from harness.analyze.compare import EXECUTIONS, Executions
from harness.check.history.measure import TIME_STATISTICS
from harness.cli.completers import complete_boards, complete_models, complete_units
from harness.cli.history.options import history_option, opened, settings_option
from harness.cli.options import SELECTION, PanelCommand, baseline_of, option, output_options, panel
from harness.cli.output import OutputOptions

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef


@click.command(name="show", cls=PanelCommand)
@click.argument("pattern", default="*")
@panel(
    SELECTION,
    option(
        "--board",
        metavar="NAME",
        shell_complete=complete_boards,
        help="Board of the results; required if the history has several.",
    ),
    option(
        "--model",
        metavar="FILE",
        shell_complete=complete_models,
        help="Model, a file without its directory or a name; required if there are several.",
    ),
    option("--method", metavar="NAME", help="Method; required if there are several."),
    option(
        "--unit", metavar="UNIT", shell_complete=complete_units, help="Only results of this unit."
    ),
    settings_option,
    option("--before", metavar="TIME", help="Only runs started before this time."),
    option(
        "--last",
        "window",
        default=20,
        show_default=True,
        metavar="N",
        type=click.IntRange(1),
        help="Only the newest N results.",
    ),
    option(
        "--all",
        "unsound",
        is_flag=True,
        help="Include results that crashed, were cut off or lost events.",
    ),
)
@panel(
    "View",
    option(
        "--statistic",
        default="p50",
        show_default=True,
        metavar="NAME",
        type=click.Choice(TIME_STATISTICS),
        help=f"Statistic of an operator's times to show: {', '.join(TIME_STATISTICS)}.",
    ),
    option(
        "--executions",
        default="all",
        show_default=True,
        type=click.Choice(EXECUTIONS),
        help="Executions to show: all, the first after loading (cold), or later ones (warm).",
    ),
    option(
        "--baseline",
        callback=baseline_of,
        metavar="REF",
        help="Mark the results of this baseline: last:COUNT, name:NAME or commit:PREFIX.",
    ),
)
@history_option
@output_options
def command(
    pattern: str,
    board: str | None,
    model: str | None,
    method: str | None,
    unit: str | None,
    settings: str | None,
    statistic: str,
    executions: Executions,
    window: int,
    before: str | None,
    baseline: BaselineRef | None,
    unsound: bool,
    url: str | None,
    output: OutputOptions,
) -> None:
    """Show how times and sizes changed.

    PATTERN selects operators, allocators and sizes by name, such as 'conv2d #5', 'native_call_*' or
    log_bytes.
    A single match is shown result by result; of several, the change of each is shown. Decisions
    about changes follow. Results with other measurement settings are a series of their own.
    """
    with opened(url) as store:
        tested = store.only_tested(board, model, method)
        found = store.history(
            *tested,
            settings=store.settings_like(*tested, settings),
            unit=unit,
            statistics=[statistic],
            executions=executions,
            baseline=baseline,
            window=window,
            before=before,
            unsound=unsound,
            pattern=pattern,
        )
    if output.json:
        from harness.report.history import history_document

        click.echo(history_document(found), nl=False)
        return
    from harness.report.history import print_history

    print_history(output.console(), found, pattern, detailed=output.verbosity > 0)
