"""``etharness decode``: what a trace holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import OutputOptions, ReadingOptions, output_options, reading_options
from harness.cli.inspector_options import InspectorFiles, beside_options
from harness.cli.paths import FilePath

if TYPE_CHECKING:
    from rich.console import Console

    from harness.analyze.memory import Memory
    from harness.analyze.planned_memory import PlannedPool
    from harness.records.trace import Trace
    from harness.runs.model_metadata import ModelMetadata
    from harness.runs.source import Source


@click.command(name="decode")
@click.argument("path", type=FilePath())
@click.option("--tree", is_flag=True, help="Print the call tree, with total and self times.")
@click.option(
    "--memory", "with_memory", is_flag=True, help="Print memory over time: peaks and who was live."
)
@beside_options
@reading_options
@output_options
def command(
    path: Path,
    tree: bool,
    with_memory: bool,
    beside: InspectorFiles,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Print what an ETDump, a console capture, a log or a run directory holds."""
    reading = beside.on_scale(reading)
    source = reading.load(path)
    known = beside.know(source)
    found = beside.inspect(source)
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
            by_module=beside.by == "module",
            comparisons=comparisons,
        )
        click.echo(document, nl=False)
        return
    from harness.report.symbols import print_comparisons, print_sources
    from harness.report.terminal import print_damage

    console, detailed = output.console(), output.verbosity > 0
    if tree:
        from harness.report.tree import print_tree

        print_tree(console, source.trace, detailed=detailed)
    if with_memory:
        from harness.report.memory import print_memory

        lives = _memory(source.trace, pools)
        print_memory(console, source.trace, lives, pools, detailed=detailed)
    if beside.by is not None or not (tree or with_memory):
        _print_operators(console, source, known, beside, detailed=detailed)
    if detailed:
        print_sources(console, source.trace, known.symbols)
    print_comparisons(console, comparisons)
    print_damage(console, source.damage, detailed=detailed)
    if len(source.dumps) > 1:
        click.echo(f"{len(source.dumps)} dumps, one behind the other in the file")


def _print_operators(
    console: Console,
    source: Source,
    known: ModelMetadata,
    beside: InspectorFiles,
    *,
    detailed: bool,
) -> None:
    """Print the run, or its times by module."""
    from harness.check.subject import Subject
    from harness.formatting import unit_of
    from harness.records.verdict import Verdict
    from harness.report.description import describe
    from harness.report.run import print_trace
    from harness.report.symbols import known_columns, print_modules
    from harness.runs.judged_run import JudgedRun

    unit = unit_of(beside.target_time_scale)
    if beside.by == "module":
        print_modules(console, source.trace, known.symbols, unit)
        return
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
