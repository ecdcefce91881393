"""``etharness compare``: compare two traces operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.analyze.compare import EXECUTIONS, STATISTICS, Executions, Statistic, compare
from harness.cli.options import (
    FilePath,
    PanelCommand,
    ReadingOptions,
    option,
    output_options,
    panel,
    reading_options,
)
from harness.cli.output import OutputOptions
from harness.errors import NotComparableError, UsageError
from harness.files import display_path
from harness.formatting import printable
from harness.records.result import recorded_settings

if TYPE_CHECKING:
    from harness.runs.source import Source


@click.command(name="compare", cls=PanelCommand)
@click.argument("before", type=FilePath())
@click.argument("after", type=FilePath())
@panel(
    "Comparison",
    option(
        "--statistic",
        type=click.Choice(STATISTICS),
        metavar="NAME",
        default="p50",
        show_default=True,
        help=f"Statistic of an operator's times to compare: {', '.join(STATISTICS)}.",
    ),
    option(
        "--executions",
        type=click.Choice(EXECUTIONS),
        default="all",
        show_default=True,
        help="Executions to compare: all, the first after loading (cold), or later ones (warm).",
    ),
    option(
        "--values",
        is_flag=True,
        help="Compare the logged values instead of times (run --values intermediate).",
    ),
    option(
        "--etrecord",
        "etrecords",
        type=FilePath(),
        multiple=True,
        metavar="FILE",
        help="With --values: ETRecord of both exports, or one for each; pairs by debug handle.",
    ),
)
@reading_options
@output_options
def command(
    before: Path,
    after: Path,
    statistic: Statistic,
    executions: Executions,
    values: bool,
    etrecords: tuple[Path, ...],
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Compare two traces operator by operator.

    The largest slowdown comes first. BEFORE and AFTER are run directories, device logs or ED00
    files. If they were measured with other settings, such as --values, these are named first.
    Exits with 3 if the runs used different kernels: their times do not compare.

    With --values, compare the tensors that both logged, and name the first operator whose values
    differ by more than their type explains; exits with 1 if there is one.
    """
    if etrecords and (not values or len(etrecords) > 2):
        raise UsageError(
            "--etrecord is for --values, once or twice", hint="compare --values --etrecord FILE"
        )
    sources = [reading.load(path) for path in (before, after)]
    if values:
        return _compare_values(sources, etrecords, output)
    traces = (sources[0].trace, sources[1].trace)
    old, new = (recorded_settings(source.result) for source in sources)
    found = compare(*traces, statistic, executions, settings=(old, new))
    targets = [source.result.target if source.result else None for source in sources]
    kernels = [printable(target.software) if target else "" for target in targets]
    code = NotComparableError.exit_code if all(kernels) and len(set(kernels)) > 1 else 0
    if output.json:
        from harness.report.compare import comparison_document, side

        first, second = (
            side(display_path(path), source.trace, source.damage, source.later_dumps, name)
            for path, source, name in zip((before, after), sources, kernels, strict=True)
        )
        click.echo(comparison_document(first, second, found), nl=False)
        return code
    from harness.report.compare import print_comparison
    from harness.report.terminal import print_damage, show_line

    console, detailed = output.console(), output.verbosity > 0
    print_comparison(console, traces, found, detailed=detailed)
    for source in sources:
        print_damage(console, source.damage, detailed=detailed)
    if code:
        line = f"NOT COMPARABLE: different kernels: {kernels[0]} before, {kernels[1]} after"
        show_line(console, line, style="bold red")
    return code


def _compare_values(
    sources: Sequence[Source], etrecords: Sequence[Path], output: OutputOptions
) -> int:
    from harness.analyze.values import LoggedTrace, compare_values
    from harness.report.values import print_values, values_document
    from harness.runs.source import check_same_inputs, load_metadata

    check_same_inputs(*sources)
    files = (*etrecords, *etrecords)[:2] if etrecords else (None, None)
    sides = [
        LoggedTrace(
            source.trace, source.debug_buffer or b"", load_metadata(source, etrecord=file).symbols
        )
        for source, file in zip(sources, files, strict=True)
    ]
    found = compare_values(*sides)
    if output.json:
        click.echo(values_document(found), nl=False)
    else:
        print_values(output.console(), found, detailed=output.verbosity > 0)
    return 0 if found.first_diverging is None else 1
