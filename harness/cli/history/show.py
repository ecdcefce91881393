"""``etharness history show``: what was measured, through time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.analyze.compare import EXECUTIONS, Executions
from harness.check.history.measure import TIME_STATISTICS
from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef


def _baseline(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    from harness.check.history.baseline import parse_baseline

    return None if text is None else parse_baseline(text)


@click.command(name="show")
@click.argument("pattern", default="*")
@click.option("--board", help="Type of board; need not be said where there is only one.")
@click.option("--model", metavar="FILE", help="The model's file, without its folder; likewise.")
@click.option("--method", help="Its method; likewise.")
@click.option("--unit", help="Only this board of its type.")
@click.option(
    "--statistic",
    default="p50",
    show_default=True,
    type=click.Choice(TIME_STATISTICS),
    help="What of an operator's times is shown.",
)
@click.option(
    "--executions",
    default="all",
    show_default=True,
    type=click.Choice(EXECUTIONS),
    help="Cold: the first execution after loading; warm: later ones.",
)
@click.option(
    "--last", "window", default=20, show_default=True, type=click.IntRange(1), help="The newest."
)
@click.option("--before", metavar="TIME", help="Only results that began before.")
@click.option(
    "--baseline",
    callback=_baseline,
    metavar="REF",
    help="Mark the results of name:NAME, commit:PREFIX or last:COUNT.",
)
@click.option("--all", "unsound", is_flag=True, help="Results that failed or lost events, too.")
@history_option
@output_options
def command(
    pattern: str,
    board: str | None,
    model: str | None,
    method: str | None,
    unit: str | None,
    statistic: str,
    executions: Executions,
    window: int,
    before: str | None,
    baseline: BaselineRef | None,
    unsound: bool,
    url: str | None,
    output: OutputOptions,
) -> None:
    """Show how what was measured changed.

    PATTERN says which operators, allocators or sizes, such as 'native_call_*' or log_bytes. Of a
    single one every result is shown, of several what became of each.
    """
    with opened(url) as store:
        found = store.history(
            *store.only_tested(board, model, method),
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
