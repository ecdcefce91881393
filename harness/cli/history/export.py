"""``etharness history export``: write all measured values as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.history.options import history_option, opened, selection_options, with_known_model
from harness.cli.options import RESULTS, FilePath, PanelCommand, option, output_options, panel
from harness.cli.output import OutputOptions
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.history.entries import Selection


@click.command(name="export", cls=PanelCommand)
@selection_options
@history_option
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "file",
        required=True,
        type=FilePath(dir_okay=False),
        metavar="FILE",
        help="File to write; the suffix selects the format: .csv, .tsv, .json or .parquet.",
    ),
    option("--force", is_flag=True, help="Replace an existing file."),
)
@output_options
def command(
    file: Path, force: bool, selection: Selection, url: str | None, output: OutputOptions
) -> None:
    """Write all measured values as a table.

    Each row has the statistics of one operator in one result, over all, cold or warm executions,
    or one other value. `etharness explain history` lists the columns.
    """
    from harness.export.chunked_writer import check_suffix

    check_suffix(file)
    if file.exists() and not force:
        raise UsageError(f"{file} already exists", hint="replace it with --force")
    with opened(url) as store:
        rows = store.export(file, with_known_model(store, selection))
    if output.json:
        from harness.report.history import exported_document

        click.echo(exported_document(str(file), rows), nl=False)
    elif output.verbosity >= 0:
        output.print_line(f"{file}: {rows:,} rows")
