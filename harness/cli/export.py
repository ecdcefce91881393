"""``etharness export``: write a trace in another tool's format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from harness.analyze.operands import find_method
from harness.analyze.ticks import suspected_widths
from harness.cli.options import (
    MODEL,
    RESULTS,
    FilePath,
    PanelCommand,
    option,
    output_options,
    panel,
)
from harness.cli.output import OutputOptions
from harness.cli.reading_options import ReadingOptions, reading_options
from harness.decode.pte import read_program
from harness.errors import UsageError
from harness.export.formats import FORMATS, export, find_format, format_names
from harness.files import read_model, write_atomic
from harness.records.result import RunIdentity
from harness.runs.energy import energy_of_run
from harness.runs.source import Source, load_metadata


class _ExportCommand(PanelCommand):
    """The command, whose help has a list of the formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, known.description) for name, known in FORMATS.items()]
        rows += [(name, "From a plugin.") for name in format_names() if name not in FORMATS]
        with formatter.section("Formats (`etharness explain exports`)"):
            formatter.write_dl(rows)
        super().format_epilog(ctx, formatter)


@click.command(name="export", cls=_ExportCommand)
@click.argument("path", type=FilePath())
@panel(
    "Format",
    option(
        "-f",
        "--format",
        "name",
        required=True,
        callback=lambda _context, _option, name: find_format(name) and name,
        metavar="FORMAT",
        help="Format to write; see the list below.",
    ),
    option("--flavour", metavar="NAME", help="Variant of the format."),
)
@panel(
    MODEL,
    option(
        "--model",
        metavar="FILE",
        type=FilePath(exists=True, dir_okay=False),
        help="Executed .pte file; adds operands, data dependencies and names of delegates.",
    ),
    option(
        "--etrecord",
        metavar="FILE",
        type=FilePath(exists=True, dir_okay=False),
        help="ETRecord of the model; adds module paths and names of delegates.",
    ),
    option(
        "--method",
        metavar="NAME",
        help="Executed method of the model.  [default: the one that matches the trace]",
    ),
)
@reading_options
@panel(
    RESULTS,
    option(
        "-o",
        "--output",
        "file",
        required=True,
        type=FilePath(),
        metavar="FILE",
        help="File to write.",
    ),
    option("--force", is_flag=True, help="Replace an existing file."),
)
@output_options
def command(
    path: Path,
    name: str,
    file: Path,
    flavour: str | None,
    model: Path | None,
    etrecord: Path | None,
    method: str | None,
    force: bool,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Write a trace in another tool's format.

    PATH is a run directory, a device log or an ED00 file.
    """
    _refuse_to_replace(file, force)
    source = reading.load(path)
    trace = source.trace
    executed = find_method(read_program(read_model(model)), trace, method) if model else None
    named = executed.name if executed else method
    symbols = load_metadata(source, etrecord=etrecord, method=named).symbols
    energy = energy_of_run(trace, source.result, path)
    identity = RunIdentity.of(source.result)
    exported = export(trace, name, flavour, executed, identity, energy, symbols)
    write_atomic(file, exported.data)
    exported = replace(exported, notes=_defects(source) + exported.notes)
    if output.json:
        suspicions = tuple(item.advice for item in suspected_widths(trace, source.later_dumps))
        exported = replace(exported, notes=suspicions + exported.notes)
        from harness.report.document import export_document

        click.echo(export_document(str(file), name, exported), nl=False)
        return
    if output.verbosity >= 0:
        output.print_line(f"{file}: {len(exported.data):,} bytes of {name}")
        for note in exported.notes:
            click.echo(f"  note: {note}", err=True)


def _refuse_to_replace(file: Path, force: bool) -> None:
    if file.is_file() and not force:
        raise UsageError(f"{file} already exists", hint="replace it with --force")
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is not a regular file", hint="name a file with -o")
    if not file.parent.is_dir():
        raise UsageError(
            f"{file.parent} is not a directory", hint="create it, or name another file with -o"
        )


def _defects(source: Source) -> tuple[str, ...]:
    """Return notes about the defects of the trace."""
    notes = tuple(
        f"damaged: {item.reason}" + (f"; {item.events} events lost" if item.events else "")
        for item in source.damage
    )
    count = len(source.dumps)
    return (*notes, f"{count} dumps, assumed to share one clock") if count > 1 else notes
