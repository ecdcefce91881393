"""``etharness site``: a static site of all results of a history."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.command import (
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    absolute_history,
    option,
    output_options,
    panel,
)
from harness.printing import counted
from harness.records.store_address import StoreAddress


@click.command(name="site", cls=PanelCommand)
@click.argument("url", metavar="[HISTORY]", required=False, callback=absolute_history)
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "directory",
        required=True,
        metavar="DIR",
        type=FilePath(),
        help="Folder of the site: a new or empty one, or that of a site to bring up to date.",
    ),
    option(
        "--title",
        default="",
        metavar="NAME",
        help="Name of the project, the title of all pages; by default that of the site before, of "
        "the pyproject.toml with [tool.etharness], or Results.",
    ),
)
@output_options
def command(url: StoreAddress | None, directory: Path, title: str, output: OutputOptions) -> None:
    """Write a static site of all results of a history.

    HISTORY is an SQLite file or postgresql:// URL, by default the same as for `etharness history`.
    The site needs no server: open DIR/index.html, or publish the folder. Only files whose content
    changed are written.
    """
    from harness.config.project import default_history
    from harness.extensions.web.site.writer import SiteFolder, write_site
    from harness.history import open_store

    title = title or SiteFolder(directory).title or _project_name()
    with open_store(url or default_history(), create=False) as store, output.stages() as stages:
        changes = write_site(store, directory, title, progress=stages)
    if output.json:
        output.print_json(changes)
        return
    if output.verbosity > 0:
        for name in changes.written:
            output.print_line(f"written: {name}")
    for name in changes.removed:
        output.print_line(f"removed: {name}")
    output.print_line(
        f"{changes.directory}/index.html: {counted(changes.results, 'result')}; "
        f"{counted(len(changes.written), 'file')} written, {changes.unchanged:,} unchanged, "
        f"{len(changes.removed):,} removed"
    )


def _project_name() -> str:
    """Return the name in the pyproject.toml that sets defaults here; empty without one."""
    from harness.config.project import find_project
    from harness.config.toml_file import read_document

    file = find_project().file
    project = read_document(file).data.get("project") if file is not None else None
    return str(project.get("name", "")) if isinstance(project, dict) else ""


command.section = "Boards over time"
