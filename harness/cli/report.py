"""``etharness report``: one report about several runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

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

if TYPE_CHECKING:
    from harness.check.history.baseline import BaselineRef
    from harness.runs.evaluation import EvaluatedRun


@click.command(name="report", cls=PanelCommand)
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@panel(
    VERDICT,
    option(
        "--budget",
        metavar="FILE",
        type=FilePath(),
        help="Budget file for all runs.  [default: the one each run was checked against, if any]",
    ),
    compared_history_option,
    baseline_option,
)
@reading_options
@panel(RESULTS, report_option("-o", "--output"), annotations_option)
@output_options
def command(
    paths: tuple[Path, ...],
    reports: tuple[Path, ...],
    annotations: str | None,
    budget: Path | None,
    history: str | None,
    baseline: BaselineRef | None,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Evaluate runs again and write one report about them.

    PATHS are run directories, directories with runs anywhere below them, device logs or ED00
    files. Failed runs are included. The exit code is 1 if a run did not pass. Each run is compared
    with the results it was compared with before, unless --history or --baseline is given.
    """
    from harness.config.project import find_project
    from harness.runs.add_results import run_directories
    from harness.runs.baseline import history_of
    from harness.runs.directory import RunDirectory
    from harness.runs.evaluation import all_passed, evaluate_path

    runs: list[EvaluatedRun] = []
    against, fallback = history_of(history, baseline), find_project().budget
    found_paths: list[Path] = []
    for path in paths:
        # The test sets of a bundled program are parts of its run, and come with it.
        found_paths += [path] if RunDirectory(path).is_one else run_directories([path])
    with output.stages() as stages:
        for done, path in enumerate(found_paths):
            stages("evaluating", done, len(found_paths))
            given = reading.given()
            found = evaluate_path(path, budget, given, against, fallback, reading.load)
            runs.extend(found.parts)
        stages("writing", 0, 0)
        write_reports(reports, runs)
    print_annotations(output, annotations, runs)
    if output.json:
        from harness.report.results import report_document

        click.echo(report_document(runs), nl=False)
    else:
        from harness.report.overview import print_overview

        print_overview(output.console(), runs)
    return 0 if all_passed(runs) else 1
