"""``etharness decode``: show a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.options import (
    MODEL,
    FilePath,
    PanelCommand,
    option,
    output_options,
    panel,
    with_options,
)
from harness.cli.output import OutputOptions
from harness.cli.reading_options import ReadingOptions, reading_options
from harness.errors import UsageError
from harness.records.clock_domain import ClockDomain

if TYPE_CHECKING:
    from rich.console import Console

    from harness.analyze.memory import Memory
    from harness.analyze.planned_memory import PlannedPool
    from harness.formatting import DisplayUnit
    from harness.inspector.outputs import OutputComparison
    from harness.records.trace import Trace
    from harness.runs.source import ModelMetadata, Source


_F = TypeVar("_F", bound=Callable[..., Any])

_SCALES = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1, "cycles": None}
"""Ticks per second by the name of a time scale; cycles have no rate."""

_LISTED = 10_000
"""Most operators that are listed without -v."""


@dataclass(frozen=True, slots=True)
class InspectorOptions:
    """Values of the options; each field is the option of its name."""

    etrecord: Path | None
    model: Path | None
    method: str | None
    source_time_scale: str | None
    target_time_scale: str | None
    tsv: Path | None
    compare_results: bool
    bundled_input: int | None

    def on_scale(self, reading: ReadingOptions) -> ReadingOptions:
        """Return ``reading`` with the rate of ``--source-time-scale``.

        Raises:
            UsageError: The rate is given twice, or only one of the two scales is cycles.
        """
        source = self.source_time_scale
        if (source == "cycles") != (self.target_time_scale == "cycles"):
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

    def metadata(self, source: Source) -> ModelMetadata:
        """Read the metadata of the files for the events of a trace."""
        from harness.runs.source import load_metadata

        return load_metadata(source, etrecord=self.etrecord, model=self.model, method=self.method)

    def inspect(self, source: Source) -> list[OutputComparison]:
        """Write the Inspector's table with ``--tsv``; return the output comparisons, if any."""
        if not (self.tsv or self.compare_results):
            return []
        from harness.inspector import Inspector, TimeScale
        from harness.inspector.outputs import compare_runs

        inspector = Inspector(
            etdump_data=source,
            etrecord=self.etrecord,
            source_time_scale=TimeScale(self.source_time_scale or "ns"),
            target_time_scale=TimeScale(self.target_time_scale or "ms"),
            method=self.method,
            bundled_input_index=self.bundled_input,
        )
        if self.tsv:
            inspector.save_data_to_tsv(self.tsv)
        return compare_runs(inspector) if self.compare_results else []


def inspector_options(function: _F) -> _F:
    """Add the options and pass them as one ``options`` argument."""

    def collect(*args: Any, **kwargs: Any) -> Any:
        given = {field.name: kwargs.pop(field.name) for field in fields(InspectorOptions)}
        return function(*args, options=InspectorOptions(**given), **kwargs)

    scales = click.Choice(list(_SCALES))
    file = FilePath(dir_okay=False)
    model = panel(
        MODEL,
        option(
            "--etrecord",
            metavar="FILE",
            type=file,
            help="ETRecord of the model; adds operators, modules and, with -v, stack traces.",
        ),
        option(
            "--model",
            metavar="FILE",
            type=file,
            help="Executed .pte file; adds operator arguments and, with --memory, planned memory.",
        ),
        option(
            "--method",
            metavar="NAME",
            help="Executed method of the model.  [default: the recorded one, or the one "
            "that matches the trace]",
        ),
    )
    inspector = panel(
        "ExecuTorch Inspector",
        option(
            "--source-time-scale",
            metavar="SCALE",
            type=scales,
            help="Tick unit for files that do not record one: ns, us, ms, s or cycles.  "
            "[default: ns]",
        ),
        option(
            "--target-time-scale",
            metavar="SCALE",
            type=scales,
            help="Unit of the printed times.  [default: by magnitude]",
        ),
        option(
            "--tsv",
            metavar="FILE",
            type=file,
            help="Also write the Inspector's table as tab-separated values.",
        ),
        option(
            "--compare-results",
            is_flag=True,
            help="Compare the outputs with the reference outputs of the ETRecord.",
        ),
        option(
            "--bundled-input",
            metavar="N",
            type=click.IntRange(0),
            help="Test case of the ETRecord that ran.  [default: the recorded one]",
        ),
    )
    return with_options(function, collect, lambda collected: model(inspector(collected)))


@click.command(name="decode", cls=PanelCommand)
@click.argument("path", type=FilePath())
@panel(
    "View",
    option("--tree", is_flag=True, help="Print the call tree with total and self times."),
    option(
        "--memory",
        "with_memory",
        is_flag=True,
        help="Print memory over time: each peak and the tensors live at that moment.",
    ),
    option(
        "--by",
        type=click.Choice(["module"]),
        help="Group times by module, each operator counted once; needs --etrecord.",
    ),
)
@inspector_options
@reading_options
@output_options
def command(
    path: Path,
    tree: bool,
    with_memory: bool,
    by: str | None,
    options: InspectorOptions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Show a trace: times, call tree, memory.

    PATH is a run directory, a device log, an ED00 file or a console capture.
    """
    reading = options.on_scale(reading)
    source = reading.load(path)
    known = options.metadata(source)
    found = options.inspect(source)
    comparisons = [(item.run, item.output, item.metrics) for item in found]
    pools = _pools(known) if with_memory else []
    if output.json:
        from harness.report.document import trace_document

        document = trace_document(
            source.trace,
            source.result.clock_quality if source.result is not None else (),
            emulated=source.result is not None and source.result.emulated_time,
            tree=tree,
            memory=_memory(source.trace, pools) if with_memory else None,
            pools=pools,
            later_dumps=source.later_dumps,
            padding=source.padding,
            damage=source.damage,
            symbols=known.symbols,
            arguments=known.arguments,
            by_module=by == "module",
            comparisons=comparisons,
        )
        click.echo(document, nl=False)
        return
    from harness.formatting import unit_of
    from harness.report.symbols import print_comparisons, print_modules, print_sources
    from harness.report.terminal import print_damage

    console, detailed = output.console(), output.verbosity > 0
    if tree:
        from harness.report.tree import print_tree

        print_tree(console, source.trace, detailed=detailed)
    if with_memory:
        from harness.report.memory import print_memory

        lives = _memory(source.trace, pools)
        print_memory(console, source.trace, lives, pools, detailed=detailed)
    if by is not None or not (tree or with_memory):
        unit = unit_of(options.target_time_scale)
        if by == "module":
            print_modules(console, source.trace, known.symbols, unit)
        else:
            _print_operators(console, source, known, unit, detailed=detailed)
    if detailed:
        print_sources(console, source.trace, known.symbols)
    print_comparisons(console, comparisons)
    print_damage(console, source.damage, detailed=detailed)
    if source.padding:
        output.print_line(f"{source.padding:,} padding bytes behind the trace")


def _print_operators(
    console: Console,
    source: Source,
    known: ModelMetadata,
    unit: DisplayUnit | None,
    *,
    detailed: bool,
) -> None:
    """Print the run with its operators."""
    from harness.check.subject import Subject
    from harness.records.verdict import Verdict
    from harness.report.description import describe
    from harness.report.run import print_trace
    from harness.report.symbols import known_columns
    from harness.runs.evaluation import EvaluatedRun

    most = None if detailed else _LISTED
    subject = Subject(source.trace, most_operators=most)
    if (result := source.result) is not None:
        subject = Subject(
            source.trace,
            most_operators=most,
            qualities=result.clock_quality,
            runs_requested=result.runs_requested,
            emulated_time=result.emulated_time,
        )
    print_trace(
        console,
        describe(EvaluatedRun("", subject, Verdict(())), unit=unit),
        detailed=detailed,
        columns=known_columns(known.symbols, known.arguments),
    )


def _pools(known: ModelMetadata) -> list[PlannedPool]:
    from harness.analyze.planned_memory import planned_pools

    return [] if known.method is None else planned_pools(known.method)


def _memory(trace: Trace, pools: list[PlannedPool]) -> Memory:
    from harness.analyze.memory import memory

    return memory(trace, {f"planned_{pool.pool}": pool.planned for pool in pools})
