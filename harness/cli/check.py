"""``etharness check``: a trace against a budget."""

from __future__ import annotations

import math
from pathlib import Path

import click

from harness.cli.common import (
    Output,
    Reading,
    output_options,
    reading_options,
    report_option,
    write_reports,
)
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
@click.argument("paths", nargs=-1, required=True, metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--budget",
    type=click.Path(path_type=Path),
    help="Budget file.  [default: the one the run directory was checked against, if any]",
)
@click.option(
    "--etrecord",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What the model's exporter knew: limits on modules need it.",
)
@click.option("--board", default="", help="Board whose rules count, for a trace without a result.")
@click.option("--model", default="", help="Model whose rules count, likewise; its file or name.")
@report_option()
@click.option(
    "--suggest",
    "suggested",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
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
    reports: tuple[Path, ...],
    suggested: Path | None,
    margin: float,
    own_limit: float,
    reading: Reading,
    output: Output,
) -> int:
    """Check a run or an ETDump: what always holds, and a budget."""
    if suggested is not None:
        return _suggest(suggested, paths, margin, own_limit, reading, output)
    if len(paths) > 1:
        raise UsageError(
            f"check takes one PATH, not {len(paths)}", hint="`etharness report` judges several"
        )
    (path,) = paths
    from harness.lab.judge import judged_path, recorded

    run = judged_path(path, reading.load, budget, reading.given(etrecord, board, model))
    write_reports(reports, [run])
    if run.subject is None:
        reading.load(path)  # raises what there is to say of a run without a trace
    if output.json:
        from harness.result import encode

        click.echo(encode(recorded(run)), nl=False)
    else:
        from harness.report.terminal import print_verdict

        print_verdict(output.console(), run.verdict, verbosity=output.verbosity)
    return 0 if run.passed else 1


def _suggest(
    file: Path,
    paths: tuple[Path, ...],
    margin: float,
    own_limit: float,
    reading: Reading,
    output: Output,
) -> int:
    from harness.check.suggest import Wishes
    from harness.lab.suggestion import write_suggestion

    checks = write_suggestion(file, paths, reading.load, Wishes(margin, own_limit))
    unmet = sum(not check.passed for check in checks)
    if output.json:
        from harness.result import encode

        click.echo(encode(checks), nl=False)
    elif output.verbosity >= 0:
        held = f"{unmet} do not hold" if unmet else "all hold"
        click.echo(f"{file}: {len(checks)} checks of what was measured, {held}")
    return 1 if unmet else 0
