"""``etharness check``: a trace against a budget."""

from __future__ import annotations

import math
from pathlib import Path

import click

from harness.check.history.baseline import BaselineRef
from harness.cli.baseline_options import baseline_option, history_ref
from harness.cli.common import (
    OutputOptions,
    ReadingOptions,
    output_options,
    reading_options,
    report_option,
    write_reports,
)
from harness.cli.paths import FilePath, absolute_history
from harness.errors import UsageError


def _share(_: click.Context, parameter: click.Parameter, text: str) -> float:
    """A percentage as a share."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise click.BadParameter(f"{text!r} is no percentage: write 20%", param=parameter)
    return percent / 100


@click.command(name="check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH", type=FilePath())
@click.option(
    "--budget",
    type=FilePath(),
    help="Budget file.  [default: the one the run directory was checked against, if any]",
)
@click.option(
    "--etrecord",
    metavar="FILE",
    type=FilePath(dir_okay=False),
    help="What the model's exporter knew: limits on modules need it.",
)
@click.option("--board", default="", help="Board whose rules count, for a trace without a result.")
@click.option("--model", default="", help="Model whose rules count, likewise; its file or name.")
@click.option(
    "--history",
    callback=absolute_history,
    metavar="URL",
    help="Hold the run against a history: SQLite file or postgresql:// URL.  "
    "[default with --baseline: $ETHARNESS_HISTORY, or .etharness/history.sqlite near the project]",
)
@baseline_option
@report_option()
@click.option(
    "--suggest",
    "suggested",
    metavar="FILE",
    type=FilePath(dir_okay=False),
    help="Write a first budget from what was measured instead; takes several PATHs.",
)
@click.option(
    "--margin",
    default="20%",
    show_default=True,
    metavar="PERCENT",
    callback=_share,
    help="With --suggest, how much more than what was measured is allowed; 0% is exact.",
)
@click.option(
    "--own-limit",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    callback=_share,
    help="With --suggest, the share of the time that gives an operator a limit of its own.",
)
@reading_options
@output_options
def command(
    paths: tuple[Path, ...],
    budget: Path | None,
    etrecord: Path | None,
    board: str,
    model: str,
    history: str | None,
    baseline: BaselineRef | None,
    reports: tuple[Path, ...],
    suggested: Path | None,
    margin: float,
    own_limit: float,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Check a run or an ETDump: what always holds, a budget, and earlier results.

    A run that was held against a history before is held against the same again, which its
    directory keeps, unless --history or --baseline is given.
    """
    if suggested is not None:
        return _suggest(suggested, paths, margin, own_limit, reading, output)
    if len(paths) > 1:
        raise UsageError(
            f"check takes one PATH, not {len(paths)}", hint="`etharness report` judges several"
        )
    (path,) = paths
    from harness.runs.evaluation import judged_path, recorded

    against = history_ref(history, baseline)
    given = reading.given(etrecord, board, model)
    run = judged_path(path, reading.load, budget, given, against)
    write_reports(reports, [run])
    if run.subject is None:
        reading.load(path)  # raises what there is to say of a run without a trace
    if output.json:
        from harness.records.result import encode

        click.echo(encode(recorded(run)), nl=False)
    else:
        from harness.report.description import describe
        from harness.report.run import print_changes, print_verdict

        console, found = output.console(), describe(run)
        if found.changes is not None and output.verbosity >= 0:
            print_changes(console, found.changes, detailed=output.verbosity > 0)
        print_verdict(console, found.verdict, verbosity=output.verbosity)
    return 0 if run.passed else 1


def _suggest(
    file: Path,
    paths: tuple[Path, ...],
    margin: float,
    own_limit: float,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    from harness.check.suggest import Wishes
    from harness.runs.evaluation import write_suggestion

    checks = write_suggestion(file, paths, reading.load, Wishes(margin, own_limit))
    unmet = sum(not check.passed for check in checks)
    if output.json:
        from harness.records.result import encode

        click.echo(encode(checks), nl=False)
    elif output.verbosity >= 0:
        held = f"{unmet} do not hold" if unmet else "all hold"
        click.echo(f"{file}: {len(checks)} checks of what was measured, {held}")
    return 1 if unmet else 0
