"""``etharness export``: a trace in another tool's format."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.common import Output, Reading, output_options, reading_options
from harness.errors import UsageError
from harness.export.formats import FORMATS, export
from harness.lab.directory import RunDirectory
from harness.program.pte import read_program
from harness.view.inputs import find_method

_FORMATS = "\n".join(f"  {name:<12}{format_.description}" for name, format_ in FORMATS.items())


@click.command(name="export", epilog=f"\b\nFormats (docs/exports.md):\n{_FORMATS}")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "name",
    required=True,
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help="One of those below.",
)
@click.option("-o", "--output", "file", required=True, type=click.Path(path_type=Path))
@click.option("--flavour", help="A variant of the format.")
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The .pte that was executed: operands, data dependencies, names of delegates.",
)
@click.option("--method", "method_name", help="Its method; by default the one that fits the trace.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@reading_options
@output_options
def command(
    path: Path,
    name: str,
    file: Path,
    flavour: str | None,
    model: Path | None,
    method_name: str | None,
    force: bool,
    reading: Reading,
    output: Output,
) -> None:
    """Write a trace in another tool's format."""
    if file.exists() and (not force or not file.is_file()):
        raise UsageError(
            f"{file} is there already" if file.is_file() else f"{file} is not a file",
            hint="replace it with --force" if file.is_file() else "name a file with -o",
        )
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is not a directory", hint="make it, or name another file")
    trace = reading.load(path).trace
    method = find_method(read_program(model.read_bytes()), trace, method_name) if model else None
    exported = export(trace, name, flavour, method)
    RunDirectory(file.parent).write(file.name, exported.data)
    if output.json:
        from harness.report.document import export_document

        click.echo(export_document(str(file), name, exported), nl=False)
        return
    if output.verbosity >= 0:
        click.echo(f"{file}: {len(exported.data):,} bytes of {name}")
        for note in exported.notes:
            click.echo(f"  note: {note}", err=True)
