"""``etharness report``: several runs in one report."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import (
    OutputOptions,
    ReadingOptions,
    output_options,
    reading_options,
    report_option,
    write_reports,
)
from harness.cli.paths import FilePath


@click.command(name="report")
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@report_option("-o", "--output")
@click.option(
    "--budget",
    type=FilePath(),
    help="Budget file for all.  [default: for each the one it was checked against, if any]",
)
@reading_options
@output_options
def command(
    paths: tuple[Path, ...],
    reports: tuple[Path, ...],
    budget: Path | None,
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Judge runs again and write one report of them.

    PATHS are what check takes: run directories, device logs, ED00 files. The exit code is 1 when
    one of them did not pass. Runs that failed are reported, too.
    """
    from harness.config.project import find_project
    from harness.runs.evaluation import judged_path
    from harness.runs.judged_run import all_passed

    runs, fallback = [], find_project().budget
    with output.stages() as stages:
        for done, path in enumerate(paths):
            stages("judging", done, len(paths))
            given = reading.given()
            runs.append(judged_path(path, reading.load, budget, given, fallback=fallback))
        stages("writing", 0, 0)
        write_reports(reports, runs)
    if output.json:
        from harness.report.results import report_document

        click.echo(report_document(runs), nl=False)
    else:
        from harness.report.overview import print_overview

        print_overview(output.console(), runs)
    return 0 if all_passed(runs) else 1
