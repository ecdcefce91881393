"""``etharness check``: a trace against a budget."""

from __future__ import annotations

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


@click.command(name="check")
@click.argument("path", type=click.Path(path_type=Path))
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
@report_option()
@reading_options
@output_options
def command(
    path: Path,
    budget: Path | None,
    etrecord: Path | None,
    reports: tuple[Path, ...],
    reading: Reading,
    output: Output,
) -> int:
    """Check a run or an ETDump: what always holds, and a budget."""
    from harness.lab.judge import judged_path, recorded

    run = judged_path(path, reading.load, budget, reading.given(etrecord))
    write_reports(reports, [run])
    if run.subject is None:
        reading.load(path)  # raises what there is to say of a run without a trace
    if output.json:
        from harness.result import encode

        click.echo(encode(recorded(run)), nl=False)
    else:
        from harness.report.terminal import print_verdict

        print_verdict(output.console(), run.verdict, detailed=output.verbosity >= 0)
    return 0 if run.passed else 1
