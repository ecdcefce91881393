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

    if execution is not None and not at:
        raise click.UsageError("--execution needs --at: executions of ExecuTorch are found")
    with output.stages() as stages:
        run = trace_firmware(
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
            ),
            stages,
        )
    show_outcome(output, run)


command.section = "Run"
