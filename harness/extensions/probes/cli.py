"""``etharness trace``: follow the operators of firmware that nobody rebuilt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.command import (
    FIRMWARE,
    RESULTS,
    FilePath,
    OutputOptions,
    PanelCommand,
    complete_models,
    option,
    output_directory,
    output_options,
    panel,
    show_outcome,
    target_options,
)

if TYPE_CHECKING:
    from harness.target.selection import Chosen


def _placed(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> object:
    """Parse values of ``--load``."""
    files = []
    for text in texts:
        file, separator, address = text.rpartition("@")
        try:
            files.append((int(address, 0), Path(file).absolute()))
        except ValueError:
            separator = ""
        if not separator:
            raise click.BadParameter(f"{text!r} is not FILE@ADDRESS, such as m.pte@0x90000000")
    return tuple(files)


def _returns(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> object:
    """Parse values of ``--return``."""
    values = {}
    for text in texts:
        name, separator, value = text.partition("=")
        try:
            values[name] = int(value, 0) if separator else 0
        except ValueError:
            raise click.BadParameter(f"{text!r} is not FUNCTION=NUMBER") from None
    return values


@click.command(name="trace", cls=PanelCommand)
@click.argument("elf", metavar="APP.ELF", type=FilePath())
@target_options
@panel(
    "What it runs",
    option(
        "--model",
        metavar="FILE",
        type=FilePath(),
        shell_complete=complete_models,
        help="The model in the firmware (.pte): names and numbers of instructions come from it.  "
        "[default: name operators by the functions of their kernels]",
    ),
    option(
        "--method",
        default="forward",
        show_default=True,
        metavar="NAME",
        help="Method of the model.",
    ),
    option(
        "--runs",
        default=1,
        show_default=True,
        metavar="N",
        type=click.IntRange(min=1),
        help="Number of executions to trace.",
    ),
    option(
        "--at",
        multiple=True,
        metavar="FUNCTION",
        help="Trace another runtime than ExecuTorch: a function that it calls once per operator, "
        "or a pattern of such functions with *. Repeatable.",
    ),
    option(
        "--execution",
        metavar="FUNCTION",
        help="With --at: the function that is an execution.",
    ),
    option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        help="Longest wait for the next execution.  [default: the board file's]",
    ),
)
@panel(
    FIRMWARE,
    option(
        "--load",
        "files",
        multiple=True,
        callback=_placed,
        metavar="FILE@ADDRESS",
        help="Put a file into the memory of the emulated machine before it starts. Repeatable.",
    ),
    option(
        "--return",
        "returns",
        multiple=True,
        callback=_returns,
        metavar="FUNCTION[=N]",
        help="Let a function return at once, for hardware that the emulated machine lacks. "
        "Repeatable.  [default: 0]",
    ),
)
@panel(
    "Memory",
    option(
        "--output-variable",
        "outputs",
        multiple=True,
        metavar="VARIABLE",
        help="Read an output from this variable. Repeatable, in their order.  [default: where "
        "ExecuTorch has them]",
    ),
)
@panel(
    "Stops",
    option(
        "--stops",
        is_flag=True,
        help="Follow an emulated machine by breakpoints, as a debug probe does.  [default: count "
        "instructions, without stops]",
    ),
    option(
        "--counter",
        metavar="COUNTER",
        help="Counter that is read at each stop: cyccnt, systick, or ADDRESS[:BITS][:down].  "
        "[default: the board file's]",
    ),
    option(
        "--counter-hz",
        metavar="HZ",
        type=click.IntRange(min=1),
        help="Its rate.  [default: the board file's, for the same counter]",
    ),
    option(
        "--reset",
        metavar="COMMAND",
        help="Reset the board first by this command of the gdbserver, such as 'reset halt'.",
    ),
)
@panel(RESULTS, output_directory("out/trace", "Run directory to create."))
@output_options
def command(
    elf: Path,
    chosen: Chosen,
    model: Path | None,
    method: str,
    runs: int,
    at: tuple[str, ...],
    execution: str | None,
    timeout_s: float | None,
    files: tuple[tuple[int, Path], ...],
    returns: dict[str, int],
    outputs: tuple[str, ...],
    stops: bool,
    counter: str | None,
    counter_hz: int | None,
    reset: str | None,
    directory: Path,
    output: OutputOptions,
) -> None:
    """Trace the operators of firmware that nobody rebuilt.

    Finds ExecuTorch in the image by its symbols, follows its executions, and writes the trace that
    ExecuTorch's own tracer would have written (docs/trace.md). The image is the linker's output.
    On a board under QEMU instructions are counted, and nothing is stopped.

    Examples:
        etharness trace app.elf --board qemu-mps2-an385 --model kws_int8
        etharness trace app.elf --board my-board --port gdb://127.0.0.1:3333 --model model.pte
    """
    from harness.extensions.probes.trace_run import TraceRequest, trace_firmware
    from harness.link.transports import is_probe

    if (counter or counter_hz or reset) and not (stops or is_probe(chosen.port)):
        raise click.UsageError("--counter and --reset are for stops: --stops, or a probe as --port")
    if execution is not None and not at:
        raise click.UsageError("--execution needs --at: executions of ExecuTorch are found")
    with output.stages() as stages:
        traced = trace_firmware(
            TraceRequest(
                elf,
                chosen,
                directory,
                model=model,
                method=method,
                runs=runs,
                at=at,
                execution=execution,
                files=files,
                returns=returns,
                timeout_s=timeout_s,
                stops=stops,
                counter=counter,
                counter_hz=counter_hz,
                outputs=outputs,
                reset=reset,
            ),
            stages,
        )
    show_outcome(output, traced.run)
    if output.json or output.verbosity < 0:
        return
    from harness.extensions.probes.method_memory import describe_pools
    from harness.extensions.probes.stops import describe_cost
    from harness.report.terminal import show_line

    lines = [describe_pools(traced.memory.pools)]
    if traced.cost is not None and traced.counter is not None:
        lines.append(describe_cost(traced.cost, traced.counter))
    for line in filter(None, lines):
        show_line(output.console(), line)


command.section = "Run"
