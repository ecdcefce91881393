"""``etharness decode``: what a trace holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import Output, Reading, output_options, reading_options

if TYPE_CHECKING:
    from harness.trace import Trace
    from harness.view.memory import Memory
    from harness.view.planned import PlannedPool


@click.command(name="decode")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--tree", is_flag=True, help="Print the call tree, with total and self times.")
@click.option(
    "--memory", "with_memory", is_flag=True, help="Print memory over time: peaks and who was live."
)
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The .pte that was executed: with --memory, what it plans and what it needs of that.",
)
@reading_options
@output_options
def command(
    path: Path,
    tree: bool,
    with_memory: bool,
    model: Path | None,
    reading: Reading,
    output: Output,
) -> None:
    """Print what an ETDump, a console capture, a log or a run directory holds."""
    source = reading.load(path)
    pools = _pools(model, source.trace) if model and with_memory else []
    qualities = source.result.clock_quality if source.result is not None else ()
    if output.json:
        from harness.report.document import trace_document

        document = trace_document(
            source.trace,
            qualities,
            tree=tree,
            memory=_memory(source.trace, pools) if with_memory else None,
            pools=pools,
            dumps=len(source.dumps),
            damage=source.damage,
        )
        click.echo(document, nl=False)
        return
    from harness.report.terminal import print_damage, print_run

    console = output.console()
    detailed = output.verbosity > 0
    if tree:
        from harness.report.tree import print_tree

        print_tree(console, source.trace, detailed=detailed)
    if with_memory:
        from harness.report.memory import print_memory

        found = _memory(source.trace, pools)
        print_memory(console, source.trace, found, pools, detailed=detailed)
    if not tree and not with_memory:
        print_run(console, source.trace, detailed=detailed, qualities=qualities)
    print_damage(console, source.damage, detailed=detailed)
    if len(source.dumps) > 1:
        click.echo(f"{len(source.dumps)} dumps, one behind the other in the file")


def _pools(model: Path, trace: Trace) -> list[PlannedPool]:
    from harness.program.pte import read_program
    from harness.view.inputs import find_method
    from harness.view.planned import planned_pools

    return planned_pools(find_method(read_program(model.read_bytes()), trace))


def _memory(trace: Trace, pools: list[PlannedPool]) -> Memory:
    from harness.view.memory import memory

    return memory(trace, {f"planned_{pool.pool}": pool.planned for pool in pools})
