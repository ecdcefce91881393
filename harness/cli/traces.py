"""``etharness inspect``, ``decode``, ``compare`` and ``export``: models and traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.analyze.statistics import EXECUTIONS, STATISTICS, Executions, Statistic
from harness.analyze.ticks import suspected_widths
from harness.cli import command
from harness.errors import FormatError, NotComparableError, UsageError, write_error
from harness.files import display_path, find_model, read_model, write_atomic
from harness.formatting import printable
from harness.plugins import EXPLANATIONS, INSPECTORS, load_extension, load_plugin
from harness.printing import print_document, print_message
from harness.records.result import encode, recorded_settings
from harness.records.trace import ClockDomain
from harness.runs.source import ModelMetadata, ReadOptions, Source, export_source, load_metadata

if TYPE_CHECKING:
    from harness.analyze.memory import Memory, PlannedPool
    from harness.check.subject import Subject
    from harness.decode.program import Method
    from harness.records.trace import Trace
    from harness.report.traces import OutputDocument
    from harness.report.words import ReportTable


@click.command(name="inspect", cls=command.PanelCommand)
@click.argument("model", type=command.FilePath(), shell_complete=command.complete_models)
@command.panel(
    command.SELECTION,
    command.option(
        "--board",
        "boards",
        multiple=True,
        metavar="BOARD",
        shell_complete=command.complete_boards,
        help="Check this board: a name or a board file; repeatable.  [default: all boards]",
    ),
    command.setting_option("data"),
    command.option(
        "--runtime",
        type=click.Choice(["bundled", "executorch"]),
        default="bundled",
        help="With executorch, also state the memory that ExecuTorch's own runtime needs on a "
        "32-bit core.  [default: bundled]",
    ),
    command.option(
        "--input-shape",
        "shapes",
        multiple=True,
        metavar="SHAPE",
        help="Shape of an input, such as 1x37, for a model with dynamic shapes; repeat it for each "
        "input. The model is executed once on this computer.  [default: upper bounds]",
    ),
)
@command.output_options
def inspect_command(
    model: Path,
    boards: tuple[str, ...],
    data: tuple[Path, ...],
    runtime: str,
    shapes: tuple[str, ...],
    output: command.OutputOptions,
) -> int:
    """Show what a model contains and which boards it fits.

    Lists methods, operators with their multiply-accumulates and bytes moved, constants and planned
    memory. Compares the model's needs with each board: kernels, model size, arena, inputs; and says
    whether it fits when it is placed in flash (`etharness build --model`). Exits with 1 if it fits
    a board that --board names in neither way. -v lists the tensors of the planned memory.

    With --board, also estimates the instructions of every operator from measured coefficients.
    """
    from harness.analyze.workload import instruction_model
    from harness.check.fit import examine
    from harness.config.board import board_names, load_board
    from harness.decode.pte import (
        is_bundled_program,
        linked_program,
        read_bundled_program,
        read_named_program,
    )
    from harness.report.model import describe_model, print_model
    from harness.target.build import code_sizes

    path = find_model(model)
    content, test_sets = read_model(path), None
    if is_bundled_program(content):
        try:
            bundled = read_bundled_program(content)
        except FormatError as error:
            raise UsageError(f"{display_path(model)}: {error.message}", hint=error.hint) from error
        content, test_sets = bundled.program, bundled.test_sets
    content = linked_program(content, display_path(model), data)
    program = read_named_program(content, display_path(model))
    described = [load_board(name)[0] for name in boards or board_names()]
    codes = code_sizes(described)
    fits = [
        [
            examine(program, method, len(content), board, code_bytes=code)
            for board, code in zip(described, codes, strict=True)
        ]
        for method in program.methods
    ]
    if shapes:  # what fits is decided by the upper bounds, above
        at_shapes = load_extension(INSPECTORS, "input-shapes", "--input-shape is", "advice")
        program = at_shapes(path, program, shapes, data)
    instructions = [instruction_model(board) for board in described]
    executorch = runtime == "executorch"
    document = describe_model(
        *(display_path(model), content, program, fits, instructions, test_sets),
        executorch=executorch,
    )
    if output.json:
        print_document(encode(document))
    else:
        print_model(
            output.console(),
            document,
            reasons=bool(boards),
            detailed=output.verbosity > 0,
            executorch=executorch,
        )
    misfits = [each for row in fits for each in row if each.fits is False]
    missing = any(each.placed is None or each.placed.fits is False for each in misfits)
    return 1 if boards and missing else 0


_SCALES = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1, "cycles": None}
"""Ticks per second by the name of a time scale; cycles have no rate."""

_LISTED = 10_000
"""Most operators that are listed without -v."""


def _on_scale(reading: ReadOptions, source: str | None, target: str | None) -> ReadOptions:
    """Return ``reading`` with the rate of the scale ``source``, if one is given.

    Raises:
        UsageError: The rate is given twice, or only one of the two scales is cycles.
    """
    if (source == "cycles") != (target == "cycles"):
        raise UsageError(
            "cycles cannot be converted to or from a unit of time",
            hint="give both --source-time-scale cycles and --target-time-scale cycles",
        )
    if source is None:
        return reading
    if reading.clock is not None:
        raise UsageError(
            "--source-time-scale and --clock-hz both set the tick rate", hint="leave out one"
        )
    rate = _SCALES[source]
    hz = None if rate is None else Fraction(rate)
    return replace(reading, clock=ClockDomain("given", hz, 64))


@click.command(name="decode", cls=command.PanelCommand)
@click.argument("path", type=command.FilePath())
@command.panel(
    command.VIEW,
    command.option("--tree", is_flag=True, help="Print the call tree with total and self times."),
    command.option(
        "--memory",
        "with_memory",
        is_flag=True,
        help="Print memory over time: each peak and the tensors live at that moment.",
    ),
)
@command.table_options("kind", "operator", "module")
@command.panel(
    command.MODEL,
    command.option(
        "--etrecord",
        metavar="FILE",
        type=command.FilePath(dir_okay=False),
        help="ETRecord of the model; adds operators, modules and, with -v, stack traces.",
    ),
    command.option(
        "--model",
        metavar="FILE",
        type=command.FilePath(dir_okay=False),
        help="Executed .pte file; adds operator arguments and, with --memory, planned memory.",
    ),
    command.option(
        "--method",
        metavar="NAME",
        help="Executed method, where several match an execution.  [default: the recorded one]",
    ),
)
@command.panel(
    "ExecuTorch Inspector",
    command.option(
        "--source-time-scale",
        metavar="SCALE",
        type=click.Choice(list(_SCALES)),
        help="Tick unit for files that do not record one: ns, us, ms, s or cycles.  [default: ns]",
    ),
    command.option(
        "--target-time-scale",
        metavar="SCALE",
        type=click.Choice(list(_SCALES)),
        help="Unit of the printed times.  [default: by magnitude]",
    ),
    command.option(
        "--tsv",
        metavar="FILE",
        type=command.FilePath(dir_okay=False),
        help="Also write the Inspector's table as tab-separated values.",
    ),
    command.option(
        "--compare-results",
        is_flag=True,
        help="Compare the outputs with the reference outputs of the ETRecord.",
    ),
    command.option(
        "--bundled-input",
        metavar="N",
        type=click.IntRange(0),
        help="Test case of the ETRecord that ran.  [default: the recorded one]",
    ),
)
@command.reading_options
@command.output_options
def decode_command(
    path: Path,
    tree: bool,
    with_memory: bool,
    top: int | None,
    by: str | None,
    etrecord: Path | None,
    model: Path | None,
    method: str | None,
    source_time_scale: str | None,
    target_time_scale: str | None,
    tsv: Path | None,
    compare_results: bool,
    bundled_input: int | None,
    reading: ReadOptions,
    output: command.OutputOptions,
) -> None:
    """Show a trace: times, call tree, memory.

    PATH is a run directory, a device log, an ED00 file or a console capture.
    """
    source = _on_scale(reading, source_time_scale, target_time_scale).load(path)
    known = load_metadata(source, etrecord=etrecord, model=model, method=method)
    compared: list[OutputDocument] = []
    if tsv or compare_results:
        option = "--tsv" if tsv else "--compare-results"
        inspect = load_extension(INSPECTORS, "outputs", f"{option} is", "inspector")
        compared = inspect(
            source,
            scales=(source_time_scale or "ns", target_time_scale or "ms"),
            etrecord=etrecord,
            method=method,
            bundled_input=bundled_input,
            tsv=tsv,
            compare_results=compare_results,
        )
    from harness.check.subject import Subject
    from harness.report import traces

    pools = _pools(known) if with_memory else []
    most = None if output.json or output.verbosity > 0 else _LISTED
    subject = Subject(known.trace, most_operators=most)
    if (result := source.result) is not None:
        subject = replace(
            subject,
            qualities=result.clock_quality,
            runs_requested=result.runs_requested,
            emulated_time=result.emulated_time,
        )
    if output.json:
        document = traces.trace_document(
            known.trace,
            subject.qualities,
            emulated=subject.emulated_time,
            tree=tree,
            memory=_memory(known.trace, pools) if with_memory else None,
            pools=pools,
            later_dumps=source.later_dumps,
            padding=source.padding,
            damage=source.damage,
            symbols=known.symbols,
            arguments=known.arguments,
            by_module=by == "module",
            comparisons=compared,
            sections=_sections(source, model, known.methods, subject)[0],
        )
        print_document(document)
        return
    from harness.formatting import unit_of
    from harness.records.verdict import Verdict
    from harness.report.description import describe
    from harness.report.run import print_trace
    from harness.report.terminal import print_damage
    from harness.runs.source import EvaluatedRun

    console, detailed = output.console(), output.verbosity > 0
    if tree:
        traces.print_tree(console, known.trace, detailed=detailed)
    if with_memory:
        lives = _memory(known.trace, pools)
        traces.print_memory(console, known.trace, lives, pools, detailed=detailed)
    if by is not None or not (tree or with_memory):
        unit = unit_of(target_time_scale)
        if by == "module":
            traces.module_tables().print_modules(console, known.trace, known.symbols, unit)
        else:
            described = describe(EvaluatedRun("", subject, Verdict(())), unit=unit)
            _, tables = _sections(source, model, known.methods, subject)
            described = replace(described, section_tables=tables)
            columns = traces.known_columns(known.symbols, known.arguments)
            print_trace(console, described, detailed=detailed, columns=columns, top=top, by=by)
    symbols = known.symbols if detailed else None
    if compared or symbols is not None:
        traces.module_tables().print_etrecord(console, known.trace, symbols, compared)
    print_damage(console, source.damage, detailed=detailed)
    if source.padding:
        output.print_line(f"{source.padding:,} padding bytes behind the trace")


def _sections(
    source: Source, file: Path | None, methods: Sequence[Method], subject: Subject
) -> tuple[dict[str, Any], tuple[ReportTable, ...]]:
    """Return what extensions say of the program that ran, and the same as tables."""
    from harness.report.description import describe_sections

    model = source.result.model if source.result is not None else None
    found = (model.sections or {}) if model is not None else {}
    if not found and file is not None and len(methods) == 1:
        from harness.analyze.delegates import delegate_calls
        from harness.analyze.workload import method_sections

        calls = delegate_calls(read_model(find_model(file)), methods[0])
        found = method_sections(methods[0], calls=calls)
    return describe_sections(found, subject)


def _pools(known: ModelMetadata) -> list[PlannedPool]:
    from harness.analyze.memory import planned_pools

    return [pool for method in known.methods for pool in planned_pools(method)]


def _memory(trace: Trace, pools: list[PlannedPool]) -> Memory:
    from harness.analyze.memory import memory

    return memory(trace, {f"planned_{pool.pool}": pool.planned for pool in pools})


@click.command(name="compare", cls=command.PanelCommand)
@click.argument("before", type=command.FilePath())
@click.argument("after", type=command.FilePath(), required=False)
@command.panel(
    "Comparison",
    command.option(
        "--statistic",
        type=click.Choice(STATISTICS),
        metavar="NAME",
        default="p50",
        show_default=True,
        help=f"Statistic of an operator's times to compare: {', '.join(STATISTICS)}.",
    ),
    command.option(
        "--executions",
        type=click.Choice(EXECUTIONS),
        default="all",
        show_default=True,
        help="Executions to compare: all, the first after loading (cold), or later ones (warm).",
    ),
    command.option(
        "--values",
        is_flag=True,
        help="Compare the logged values instead of times (run --values intermediate).",
    ),
    command.option(
        "--etrecord",
        "etrecords",
        type=command.FilePath(),
        multiple=True,
        metavar="FILE",
        help="With --values: ETRecord of both exports, or one for each; pairs by debug handle. "
        "Without AFTER: compare with the values that its program computes (needs ExecuTorch).",
    ),
)
@command.panel(
    command.MODEL,
    command.option(
        "--model",
        "models",
        type=command.FilePath(),
        multiple=True,
        metavar="FILE",
        help="Program of both runs, or one for each, to say why they differ.  [default: the "
        "files that the runs name, if they have not changed]",
    ),
    command.option(
        "--method", metavar="NAME", default="", help="Method of two programs.  [default: the first]"
    ),
)
@command.panel(
    command.RESULTS,
    command.option(
        "--report",
        "reports",
        type=command.FilePath(dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="Also write a report; the suffix selects the format: .json, .md with the causes "
        "alone, as for a pull request, or .html for two runs. Repeatable.",
    ),
)
@command.reading_options
@command.table_options("kind", "operator")
@command.output_options
def compare_command(
    before: Path,
    after: Path | None,
    statistic: Statistic,
    executions: Executions,
    values: bool,
    etrecords: tuple[Path, ...],
    models: tuple[Path, ...],
    method: str,
    reports: tuple[Path, ...],
    reading: ReadOptions,
    top: int | None,
    by: str | None,
    output: command.OutputOptions,
) -> int:
    """Compare two traces or two programs, and say what changed.

    What changed in the program comes first, with what it costs. Then the largest slowdown comes
    first. BEFORE and AFTER are run directories, device logs or ED00 files; or two .pte files, whose
    instructions are estimated. If runs were measured with other settings, such as --values, these
    are named first.
    Changes between runs of one model, board and settings have the verdict of a comparison with
    history, which does not change the exit code here; it is that of `check --baseline`.
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
    from harness.decode.pte import is_program_file

    programs = is_program_file(before) or (after is not None and is_program_file(after))
    suffixes = [".html", ".json", ".md"]
    _check_formats(reports, suffixes[programs:] if not values else suffixes[:-1])
    if after is None and len(etrecords) != 1:
        raise UsageError(
            "compare needs a second run, or an ETRecord as the reference of values",
            hint="compare BEFORE AFTER, or compare RUN --values --etrecord FILE",
        )
    if programs and after is not None:
        explain = load_extension(EXPLANATIONS, "compare", "comparing programs is", "why")
        return int(explain.compare_programs((before, after), method, reports, output))
    if values:
        compare_values = load_extension(INSPECTORS, "values", "--values is", "inspector")
        return int(compare_values((before, after), reading.load, etrecords, reports, output))
    assert after is not None  # an ETRecord is for --values
    if method:
        raise UsageError("--method is for two programs", hint="a run executed one method")
    sources = [reading.load(path) for path in (before, after)]
    shown = (reports, output, top, by)
    return _compare_times((before, after), sources, models, statistic, executions, *shown)


def _compare_times(
    paths: Sequence[Path],
    sources: Sequence[Source],
    models: Sequence[Path],
    statistic: Statistic,
    executions: Executions,
    reports: Sequence[Path],
    output: command.OutputOptions,
    top: int | None,
    by: str | None,
) -> int:
    """Compare the times of two traces and show the differences; return the exit code."""
    from harness.report import compare as compared
    from harness.report.formats import html_pages, write_file
    from harness.runs.history import with_judgements
    from harness.runs.source import differing_outlines, subject_of

    traces = (sources[0].trace, sources[1].trace)
    old, new = (recorded_settings(source.result) for source in sources)
    from harness.analyze.compare import compare
    from harness.analyze.ticks import suspected_widths

    outlines = differing_outlines(sources[0].result, sources[1].result)
    comparison = compare(*traces, statistic, executions, settings=(old, new), outlines=outlines)
    comparison = with_judgements(
        comparison, *((subject_of(s.trace, s.result), s.result) for s in sources)
    )
    targets, records, boards = zip(
        *((r.target, r.energy, r.board) if (r := s.result) else (None, None, "") for s in sources),
        strict=True,
    )
    kernels = [printable(target.software) if target else "" for target in targets]
    libraries = {target.kernels for target in targets if target and target.kernels}
    code = NotComparableError.exit_code if len(libraries) == len(targets) else 0
    meter: Any = load_plugin(EXPLANATIONS, "energy")
    energy = meter.compare_energy(records[0], records[1], outlines) if meter else ()
    explain: Any = load_plugin(EXPLANATIONS, "compare")
    if explain is None and any(file.suffix.lower() == ".md" for file in reports):
        load_extension(EXPLANATIONS, "compare", "a report in Markdown is", "why")
    why = explain and explain.explain_runs(sources, models, statistic, executions)
    text = why and explain.text_of(why)
    first, second = (
        compared.SideDocument(
            printable(display_path(path)),
            source.trace.losses,
            [*source.damage],
            [printable(item.advice) for item in suspected_widths(source.trace, source.later_dumps)],
            name,
        )
        for path, source, name in zip(paths, sources, kernels, strict=True)
    )
    others = kernels if code else ()
    warnings = compared.comparison_warnings(traces, comparison, boards, others)
    datasets: Any = load_plugin(EXPLANATIONS, "accuracy")
    accuracy = datasets.compare_accuracy(sources, warnings) if datasets else ()
    sides = (first, second)
    document = compared.comparison_document(*sides, comparison, warnings, energy, why, accuracy)
    for file in reports:
        suffix = file.suffix.lower()
        page = html_pages(str(file)).comparison if suffix == ".html" else None
        content = page(sides, comparison, warnings, text or ()) if page else document
        write_file(file, explain.markdown([why], warnings) if suffix == ".md" else content)
    if output.json:
        print_document(document)
        return code
    from harness.report.run import print_table
    from harness.report.terminal import print_damage, show_line

    console, detailed = output.console(), output.verbosity > 0
    for line in [*warnings, ""] if warnings else ():
        show_line(console, line, style="bold red")
    if why:
        explain.print_explanations(console, [why])
    if by:
        groups = load_extension(INSPECTORS, "groups", "--by is", "inspector")
        print_table(console, groups.change_table(comparison, by))
    else:
        compared.print_comparison(console, comparison, detailed=detailed, top=top)
    if accuracy:
        datasets.print_accuracy_changes(console, accuracy)
    if energy:
        meter.print_energy_changes(console, energy)
    for source in sources:
        print_damage(console, source.damage, detailed=detailed)
    return code


def _check_formats(reports: Sequence[Path], suffixes: Sequence[str]) -> None:
    """Raise an error, before anything is compared, if a report cannot be written."""
    from harness.report.formats import check_report_file

    for file in reports:
        check_report_file(file)
        if file.suffix.lower() not in suffixes:
            raise UsageError(
                f"{file}: a comparison has no report with the suffix {file.suffix!r}",
                hint=f"name a file that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}",
            )


def _known_format(_: click.Context, __: click.Parameter, name: str) -> str:
    from harness.export.formats import find_format

    find_format(name)
    return name


class _ExportCommand(command.PanelCommand):
    """The command, whose help has a list of the formats."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from harness.export.formats import described_formats

        with formatter.section("Formats (`etharness explain exports`)"):
            formatter.write_dl([*described_formats().items()])
        super().format_epilog(ctx, formatter)


@click.command(name="export", cls=_ExportCommand)
@click.argument("path", type=command.FilePath())
@command.panel(
    "Format",
    command.option(
        "-f",
        "--format",
        "name",
        required=True,
        callback=_known_format,
        metavar="FORMAT",
        help="Format to write; see the list below.",
    ),
    command.option("--flavour", metavar="NAME", help="Variant of the format."),
)
@command.panel(
    command.MODEL,
    command.option(
        "--model",
        metavar="FILE",
        type=command.FilePath(exists=True, dir_okay=False),
        help="Executed .pte file; adds operands, data dependencies and names of delegates.",
    ),
    command.option(
        "--etrecord",
        metavar="FILE",
        type=command.FilePath(exists=True, dir_okay=False),
        help="ETRecord of the model; adds module paths and names of delegates.",
    ),
    command.option(
        "--method",
        metavar="NAME",
        help="Method of the model to export the operands of.  [default: the executed one]",
    ),
)
@command.reading_options
@command.panel(
    command.RESULTS,
    command.option(
        "-o",
        "--output",
        "file",
        required=True,
        type=command.FilePath(),
        metavar="FILE",
        help="File to write.",
    ),
    command.option("--force", is_flag=True, help="Replace an existing file."),
)
@command.output_options
def export_command(
    path: Path,
    name: str,
    file: Path,
    flavour: str | None,
    model: Path | None,
    etrecord: Path | None,
    method: str | None,
    force: bool,
    reading: ReadOptions,
    output: command.OutputOptions,
) -> None:
    """Write a trace in another tool's format.

    PATH is a run directory, a device log or an ED00 file.
    """
    _refuse_to_replace(file, force)
    source = reading.load(path)
    exported = export_source(
        source,
        name,
        flavour,
        directory=path,
        model=model,
        etrecord=etrecord,
        method=method,
    )
    try:
        write_atomic(file, exported.data)
    except OSError as error:
        raise write_error(error, f"cannot export to {file}") from error
    exported = replace(exported, notes=_defects(source) + exported.notes)
    if output.json:
        suspicions = tuple(
            item.advice for item in suspected_widths(source.trace, source.later_dumps)
        )
        exported = replace(exported, notes=suspicions + exported.notes)
        from harness.report.document import export_document

        print_document(export_document(str(file), name, exported))
        return
    if output.verbosity >= 0:
        output.print_line(f"{file}: {len(exported.data):,} bytes of {name}")
        for note in exported.notes:
            print_message(f"  note: {note}", error=True)


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
        f"damaged: {item.reason}" + (f"; events lost: {item.events:,}" if item.events else "")
        for item in source.damage
    )
    count = len(source.dumps)
    return (*notes, f"{count} dumps, assumed to share one clock") if count > 1 else notes
