"""``etharness compare``: compare two traces operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.analyze.compare import EXECUTIONS, STATISTICS, Executions, Statistic, compare
from harness.cli.options import (
    RESULTS,
    FilePath,
    PanelCommand,
    option,
    output_options,
    panel,
)
from harness.cli.output import OutputOptions
from harness.cli.reading_options import ReadingOptions, reading_options
from harness.errors import NotComparableError, UsageError
from harness.files import display_path
from harness.formatting import printable
from harness.records.result import recorded_settings

if TYPE_CHECKING:
    from harness.analyze.values import ValueComparison
    from harness.report.facts import Fact
    from harness.runs.source import Source


@click.command(name="compare", cls=PanelCommand)
@click.argument("before", type=FilePath())
@click.argument("after", type=FilePath(), required=False)
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
        help="With --values: ETRecord of both exports, or one for each; pairs by debug handle. "
        "Without AFTER: compare with the values that its program computes (needs ExecuTorch).",
    ),
)
@panel(
    RESULTS,
    option(
        "--report",
        "reports",
        type=FilePath(dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="Also write a report; the suffix selects the format: .html or .json. Repeatable.",
    ),
)
@reading_options
@output_options
def command(
    before: Path,
    after: Path | None,
    statistic: Statistic,
    executions: Executions,
    values: bool,
    etrecords: tuple[Path, ...],
    reports: tuple[Path, ...],
    reading: ReadingOptions,
    output: OutputOptions,
) -> int:
    """Compare two traces operator by operator.

    The largest slowdown comes first. BEFORE and AFTER are run directories, device logs or ED00
    files. If they were measured with other settings, such as --values, these are named first.
    Exits with 3 if the runs used different kernels: their times do not compare.

    With --values, compare the tensors that both logged, and name the first operator whose values
    differ by more than their type explains; exits with 1 if there is one. With --etrecord and
    without AFTER, compare them with the values that the ETRecord's program computes from the same
    inputs.
    """
    if etrecords and (not values or len(etrecords) > 2):
        raise UsageError(
            "--etrecord is for --values, once or twice", hint="compare --values --etrecord FILE"
        )
    _check_formats(reports)
    if after is None:
        if not values or len(etrecords) != 1:
            raise UsageError(
                "compare needs a second run, or an ETRecord as the reference of values",
                hint="compare BEFORE AFTER, or compare RUN --values --etrecord FILE",
            )
        compared = _with_reference(before, reading.load(before), etrecords[0])
        return _show_values(*compared, reports, output)
    sources = [reading.load(path) for path in (before, after)]
    if values:
        compared = _compare_values((before, after), sources, etrecords)
        return _show_values(*compared, reports, output)
    return _compare_times((before, after), sources, statistic, executions, reports, output)


def _compare_times(
    paths: Sequence[Path],
    sources: Sequence[Source],
    statistic: Statistic,
    executions: Executions,
    reports: Sequence[Path],
    output: OutputOptions,
) -> int:
    """Compare the times of two traces and show the differences; return the exit code."""
    from harness.report.compare import comparison_document, side
    from harness.report.energy_changes import compare_energy, print_energy_changes
    from harness.report.formats import write_file

    traces = (sources[0].trace, sources[1].trace)
    old, new = (recorded_settings(source.result) for source in sources)
    found = compare(*traces, statistic, executions, settings=(old, new))
    targets = [source.result.target if source.result else None for source in sources]
    kernels = [printable(target.software) if target else "" for target in targets]
    libraries = {target.kernels for target in targets if target and target.kernels}
    code = NotComparableError.exit_code if len(libraries) == len(targets) else 0
    energy = compare_energy(
        *(source.result.energy if source.result else None for source in sources)
    )
    line = f"NOT COMPARABLE: different kernels: {kernels[0]} before, {kernels[1]} after"
    first, second = (
        side(display_path(path), source.trace, source.damage, source.later_dumps, name)
        for path, source, name in zip(paths, sources, kernels, strict=True)
    )
    for file in reports:
        if file.suffix.lower() == ".html":
            from harness.report.html.comparison import comparison_report

            write_file(file, comparison_report((first, second), found, [line] if code else []))
        else:
            write_file(file, comparison_document(first, second, found, energy))
    if output.json:
        click.echo(comparison_document(first, second, found, energy), nl=False)
        return code
    from harness.report.compare import print_comparison
    from harness.report.terminal import print_damage, show_line

    console, detailed = output.console(), output.verbosity > 0
    print_comparison(console, traces, found, detailed=detailed)
    print_energy_changes(console, energy)
    for source in sources:
        print_damage(console, source.damage, detailed=detailed)
    if code:
        show_line(console, line, style="bold red")
    return code


def _check_formats(reports: Sequence[Path]) -> None:
    """Raise an error, before anything is compared, if a report cannot be written."""
    from harness.report.formats import check_report_file

    for file in reports:
        check_report_file(file)
        if file.suffix.lower() not in (".html", ".json"):
            raise UsageError(
                f"{file}: a comparison has no report with the suffix {file.suffix!r}",
                hint="name a file that ends in .html or .json",
            )


def _compare_values(
    paths: Sequence[Path], sources: Sequence[Source], etrecords: Sequence[Path]
) -> tuple[ValueComparison, list[Fact]]:
    """Compare the values of two traces; return what was compared, too."""
    from harness.analyze.values import LoggedTrace, compare_values
    from harness.report.facts import Fact
    from harness.runs.source import check_same_inputs, load_metadata

    check_same_inputs(*sources)
    files = (*etrecords, *etrecords)[:2] if etrecords else (None, None)
    sides = [
        LoggedTrace(
            source.trace, source.debug_buffer or b"", load_metadata(source, etrecord=file).symbols
        )
        for source, file in zip(sources, files, strict=True)
    ]
    facts = [
        Fact(label, _origin(path, source))
        for label, path, source in zip(("before", "after"), paths, sources, strict=True)
    ]
    return compare_values(*sides), facts


def _with_reference(
    path: Path, source: Source, etrecord: Path
) -> tuple[ValueComparison, list[Fact]]:
    """Compare the values of a run with those that an ETRecord's program computes."""
    from harness.analyze.values import LoggedTrace
    from harness.inspector.gap import compare_with_record
    from harness.inspector.record import InspectorRecord
    from harness.report.facts import Fact
    from harness.runs.source import load_metadata, read_npy

    result = source.result
    if result is None or result.model is None:
        raise UsageError(
            f"{display_path(path)} has no inputs for the ETRecord's program",
            hint="give a run directory: it has the inputs of its run",
        )
    symbols = load_metadata(source, etrecord=etrecord).symbols
    logged = LoggedTrace(source.trace, source.debug_buffer or b"", symbols)
    folder = path if path.is_dir() else path.parent
    inputs = [read_npy(folder / tensor.file) for tensor in result.model.inputs]
    record, method = InspectorRecord(etrecord), result.model.method
    found = compare_with_record(logged, record, method, inputs, result.test_set)
    facts = [
        Fact("reference", f"the program of {display_path(etrecord)}, method {method}, by PyTorch"),
        Fact("run", _origin(path, source)),
    ]
    return found, facts


def _origin(path: Path, source: Source) -> str:
    """Return where a trace is from, in a line."""
    from harness.records.result import RunIdentity

    known = RunIdentity.of(source.result).texts()
    settings = source.result.settings if source.result is not None else None
    known["runtime"] = settings.runtime if settings is not None else ""
    facts = ", ".join(f"{name} {text}" for name, text in known.items() if text)
    return f"{display_path(path)} ({facts})" if facts else display_path(path)


def _show_values(
    found: ValueComparison, facts: Sequence[Fact], reports: Sequence[Path], output: OutputOptions
) -> int:
    """Print a comparison of values, and write its reports."""
    from harness.report.formats import write_file
    from harness.report.values import print_values, values_document

    for file in reports:
        if file.suffix.lower() == ".html":
            from harness.report.html.values import values_report

            data = values_report(found, facts)
        else:
            data = values_document(found)
        write_file(file, data)
    if output.json:
        click.echo(values_document(found), nl=False)
    else:
        print_values(output.console(), found, detailed=output.verbosity > 0)
    return 0 if found.first_diverging is None else 1
