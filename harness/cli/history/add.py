"""``etharness history add``: add run directories to the history."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.history.options import history_option, opened
from harness.cli.options import FilePath, PanelCommand, output_options
from harness.cli.output import OutputOptions


@click.command(name="add", cls=PanelCommand)
@click.argument("paths", nargs=-1, required=True, type=FilePath())
@history_option
@output_options
def command(paths: tuple[Path, ...], url: str | None, output: OutputOptions) -> int:
    """Add run directories.

    PATHS are run directories, or directories with run directories anywhere below. A result that
    the history already has stays unchanged. The exit code is 2 if a result cannot be added.
    """
    from harness.runs.add_results import add_directory, run_directories

    directories = [*run_directories(paths)]
    found = []
    with opened(url, create=True) as store, output.stages() as stages:
        for done, directory in enumerate(directories):
            stages("adding", done, len(directories))
            found.append(add_directory(store, directory))
        location = store.location
    if output.json:
        from harness.report.history import added_document

        click.echo(added_document(found), nl=False)
    else:
        from harness.report.history import print_added

        print_added(output.console(), found, location, detailed=output.verbosity > 0)
    return 2 if any(item.state == "refused" for item in found) else 0
