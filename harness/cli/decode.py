"""``etharness decode``: show a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.inspector_options import InspectorOptions, inspector_options
from harness.cli.options import ReadingOptions, output_options, reading_options
from harness.cli.output import OutputOptions
from harness.cli.panels import PanelCommand, option, panel
from harness.cli.paths import FilePath

if TYPE_CHECKING:
    from rich.console import Console

    from harness.analyze.memory import Memory
    from harness.analyze.planned_memory import PlannedPool
    from harness.formatting import DisplayUnit
    from harness.records.trace import Trace
    from harness.runs.model_metadata import ModelMetadata
    from harness.runs.source import Source


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
            tree=tree,
            memory=_memory(source.trace, pools) if with_memory else None,
            pools=pools,
            later_dumps=source.later_dumps,
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
    if len(source.dumps) > 1:
        click.echo(f"the file holds {len(source.dumps)} dumps, one after the other")


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
    from harness.runs.judged_run import JudgedRun

    qualities = source.result.clock_quality if source.result is not None else ()
    subject = Subject(source.trace, qualities=qualities)
    print_trace(
        console,
        describe(JudgedRun("", subject, Verdict(())), unit=unit),
        detailed=detailed,
        columns=known_columns(known.symbols, known.arguments),
    )


def _pools(known: ModelMetadata) -> list[PlannedPool]:
    from harness.analyze.planned_memory import planned_pools

    return [] if known.method is None else planned_pools(known.method)


def _memory(trace: Trace, pools: list[PlannedPool]) -> Memory:
    from harness.analyze.memory import memory

    return memory(trace, {f"planned_{pool.pool}": pool.planned for pool in pools})
