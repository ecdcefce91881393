"""``etharness check``: check a trace against invariants, a budget and a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.completers import complete_boards, complete_models
from harness.cli.options import (
    RESULTS,
    VERDICT,
    FilePath,
    PanelCommand,
    annotations_option,
    baseline_option,
    compared_history_option,
    option,
    output_options,
    panel,
    report_option,
)
from harness.cli.output import OutputOptions, print_annotations, write_reports
from harness.cli.reading_options import ReadingOptions, reading_options
from harness.cli.values import percentage
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef


@click.command(name="check", cls=PanelCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH", type=FilePath())
@panel(
    VERDICT,
    option(
        "--budget",
        metavar="FILE",
        type=FilePath(),
        help="Budget file.  [default: the one the run was checked against; the "
        "project's for a trace alone]",
    ),
    option(
        "--board",
        default="",
        metavar="BOARD",
        shell_complete=complete_boards,
        help="Apply the budget rules of this board; for a trace without result.json.",
    ),
    option(
        "--model",
        default="",
        metavar="MODEL",
        shell_complete=complete_models,
        help="Apply the budget rules of this model, a file or a name; likewise.",
    ),
    option(
        "--etrecord",
        metavar="FILE",
        type=FilePath(dir_okay=False),
        help="ETRecord of the model; required by limits on modules.",
    ),
    compared_history_option,
    baseline_option,
)
@panel(
    "Suggested budget",
    option(
        "--suggest",
        "suggested",
        metavar="FILE",
        type=FilePath(dir_okay=False),
        help="Write a first budget from the measured values instead; accepts several PATHs.",
    ),
    option(
        "--margin",
        default="20%",
        show_default=True,
        metavar="PERCENT",
        callback=percentage,
        help="Margin of each suggested limit above the measured value; 0% is exact.",
    ),
    option(
        "--own-limit",
        default="5%",
        show_default=True,
        metavar="PERCENT",
        callback=percentage,
        help="Share of the total time from which an operator gets its own limit.",
    ),
)
@reading_options
@panel(RESULTS, report_option(), annotations_option)
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
    annotations: str | None,
    suggested: Path | None,
    margin: float,
    own_limit: float,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Check a trace against invariants, a budget and a baseline.

    PATH is a run directory, a device log or an ED00 file. A run that was compared with a baseline
    before is compared with the same results again, unless --history or --baseline is given.
    """
    if suggested is not None:
        return _suggest(suggested, paths, margin, own_limit, reading, output)
    if len(paths) > 1:
        raise UsageError(
            f"check takes one PATH, not {len(paths)}", hint="`etharness report` evaluates several"
        )
    (path,) = paths
    from harness.config.project import find_project
    from harness.runs.baseline import history_of
    from harness.runs.evaluation import evaluate_path, verdict_record

    against = history_of(history, baseline)
    given, fallback = reading.given(etrecord, board, model), find_project().budget
    run = evaluate_path(path, budget, given, against, fallback, reading.load)
    write_reports(reports, [run])
    if not run.traced:
        reading.load(path)  # a run without a trace: raises the reason
    print_annotations(output, annotations, [run])
    if output.json:
        output.print_json(verdict_record(run))
    else:
        from harness.report.description import describe
        from harness.report.run import print_changes, print_verdict

        console, found = output.console(), describe(run)
        if found.changes is not None and output.verbosity >= 0:
            print_changes(console, found.changes, detailed=output.verbosity > 0)
        print_verdict(console, found.verdict, verbosity=output.verbosity)
    return run.verdict.exit_code or int(not run.passed)


def _suggest(
    file: Path,
    paths: tuple[Path, ...],
    margin: float,
    own_limit: float,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    from harness.check.suggest import Wishes
    from harness.runs.suggestion import write_suggestion

    checks = write_suggestion(file, paths, reading.load, Wishes(margin, own_limit))
    unmet = sum(not check.passed for check in checks)
    if output.json:
        output.print_json(checks)
    elif output.verbosity >= 0:
        passed = f"{unmet} failed" if unmet else "all passed"
        output.print_line(f"{file}: {len(checks)} checks of the measured values, {passed}")
    return 1 if unmet else 0
