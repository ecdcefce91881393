"""``etharness export``: a trace in another tool's format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from harness.analyze.clock_width import suspected_widths
from harness.analyze.inputs import find_method
from harness.cli.common import OutputOptions, ReadingOptions, output_options, reading_options
from harness.cli.paths import FilePath
from harness.decode.pte import read_program
from harness.errors import UsageError
from harness.export.formats import FORMATS, export, find_format, format_names
from harness.records.trace import Trace
from harness.runs.directory import RunDirectory
from harness.runs.source import Source

_FORMATS = "\n".join(
    [
        *(f"  {name:<12}{format_.description}" for name, format_ in FORMATS.items()),
        *(f"  {name:<12}From a plugin." for name in format_names() if name not in FORMATS),
    ]
)


@click.command(name="export", epilog=f"\b\nFormats (docs/exports.md):\n{_FORMATS}")
@click.argument("path", type=FilePath())
@click.option(
    "-f",
    "--format",
    "name",
    required=True,
    metavar="FORMAT",
    callback=lambda _context, _option, name: find_format(name) and name,
    help="One of those below.",
)
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=FilePath(),
    metavar="FILE",
    help="What to write.",
)
@click.option("--flavour", help="A variant of the format.")
@click.option(
    "--model",
    type=FilePath(exists=True, dir_okay=False),
    help="The .pte that was executed: operands, data dependencies, names of delegates.",
)
@click.option("--method", help="Its method; by default the one that fits the trace.")
@click.option("--dump", type=click.IntRange(1), help="Only this one of several dumps in a file.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@reading_options
@output_options
def command(
    path: Path,
    name: str,
    file: Path,
    flavour: str | None,
    model: Path | None,
    method: str | None,
    dump: int | None,
    force: bool,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Write a trace in another tool's format."""
    _refuse_to_replace(file, force)
    source = reading.load(path)
    trace, notes = _chosen(source, dump)
    executed = find_method(read_program(model.read_bytes()), trace, method) if model else None
    exported = export(trace, name, flavour, executed)
    RunDirectory(file.parent).write(file.name, exported.data)
    exported = replace(exported, notes=notes + exported.notes)
    if output.json:
        suspected = suspected_widths(trace, source.later_dumps if dump is None else ())
        suspicions = tuple(item.advice for item in suspected)
        exported = replace(exported, notes=suspicions + exported.notes)
        from harness.report.document import export_document

        click.echo(export_document(str(file), name, exported), nl=False)
        return
    if output.verbosity >= 0:
        click.echo(f"{file}: {len(exported.data):,} bytes of {name}")
        for note in exported.notes:
            click.echo(f"  note: {note}", err=True)


def _refuse_to_replace(file: Path, force: bool) -> None:
    if file.is_file() and not force:
        raise UsageError(f"{file} is there already", hint="replace it with --force")
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is not a file", hint="name a file with -o")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is not a directory", hint="make it, or name another file")


def _chosen(source: Source, dump: int | None) -> tuple[Trace, tuple[str, ...]]:
    """The trace to write, and what is not as it should be about it."""
    count = len(source.dumps)
    if dump is not None and dump > count:
        raise UsageError(f"there is no dump {dump}, the file has {count}")
    notes = tuple(
        f"damaged: {item.reason}" + (f"; {item.events} events lost" if item.events else "")
        for item in source.damage
    )
    if dump is not None:
        return source.dumps[dump - 1].trace, notes
    if count > 1:
        notes += (f"{count} dumps, taken to be of one clock; --dump writes one of them",)
    return source.trace, notes
