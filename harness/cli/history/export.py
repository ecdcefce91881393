"""``etharness history export``: all numbers as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import OutputOptions, output_options
from harness.cli.history.options import history_option, opened, selection_options
from harness.cli.paths import FilePath
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="export")
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="What to write: .csv, .tsv, .json or .parquet.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@selection_options
@history_option
@output_options
def command(
    file: Path, force: bool, selection: Selection, url: str | None, output: OutputOptions
) -> None:
    """Write all numbers of results as a table.

    A row is an operator of a result with all statistics of all, cold or warm executions, or one
    other number; docs/history.md says what the columns are.
    """
    from harness.export.chunked_writer import check_suffix

    check_suffix(file)
    if file.exists() and not force:
        raise UsageError(f"{file} is there already", hint="replace it with --force")
    with opened(url) as store:
        rows = store.export(file, selection)
    if output.json:
        from harness.report.history import exported_document

        click.echo(exported_document(str(file), rows), nl=False)
    elif output.verbosity >= 0:
        click.echo(f"{file}: {rows:,} rows")
