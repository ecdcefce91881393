"""Origin and arguments of operators, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from harness.analyze.operands import Argument, Arguments
from harness.analyze.statistics import Operator, operator_statistics
from harness.analyze.symbols import EventSymbols, ModuleTime, module_times
from harness.analyze.ticks import durations, ends_before_start, event_nanoseconds
from harness.errors import UsageError
from harness.formatting import DisplayUnit, printable, time_unit
from harness.records.trace import OPERATOR_CALL, Trace
from harness.report.run import Column
from harness.report.terminal import show_line, show_table
from harness.report.text import with_delegate

if TYPE_CHECKING:
    from rich.console import Console

_Known = Sequence[EventSymbols | None] | None
_Given = Sequence[Arguments | None] | None


class OriginDocument(msgspec.Struct, frozen=True):
    """The origin of an operator.

    ``module`` is the innermost around all its nodes, "" the model itself, null when nothing is
    known; ``stack_traces`` are by the name of the node.
    """

    op_types: tuple[str, ...]
    module: str | None
    backend: str | None
    debug_handles: tuple[int, ...]
    stack_traces: dict[str, str | None]


class ArgumentsDocument(msgspec.Struct, frozen=True):
    """Inputs and outputs of an operator, such as ``float32[1, 8]``; ``?`` marks an upper bound."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class ModuleDocument(msgspec.Struct, frozen=True):
    """The time of a module's operators in nanoseconds, without and with the modules within it.

    ``path`` is null for operators of unknown origin.
    """

    block: str
    path: str | None
    type: str | None
    own_ns: float
    total_ns: float


class OutputDocument(msgspec.Struct, frozen=True):
    """An output compared with its reference; infinite and undefined metrics are null."""

    run: int
    output: int
    metrics: dict[str, float | None]


Comparison = tuple[int, int, dict[str, float | None]]
"""Numbers of run and output, and the metrics."""

_UNITS = {"snr": "snr [dB]"}


def origin_document(operator: Operator, symbols: _Known) -> OriginDocument | None:
    """Return the origin of an operator in the ETRecord."""
    found = None if symbols is None else symbols[int(operator.rows[0])]
    if found is None:
        return None
    handles = (found.handles,) if isinstance(found.handles, int) else found.handles or ()
    return OriginDocument(
        op_types=found.op_types,
        module=found.module[-1].path if found.module else None,
        backend=found.backend,
        debug_handles=handles,
        stack_traces=found.stack_traces,
    )


def arguments_document(operator: Operator, arguments: _Given) -> ArgumentsDocument | None:
    """Return the arguments of an operator in its first run, from the model or the log."""
    found = None if arguments is None else arguments[int(operator.rows[0])]
    if found is None:
        return None
    return ArgumentsDocument(_texts(found.inputs), _texts(found.outputs))


def module_documents(trace: Trace, symbols: _Known) -> list[ModuleDocument]:
    """Return the modules of each block name.

    Raises:
        UsageError: There are no symbols, or the rate of a clock is unknown.
    """
    return [
        ModuleDocument(
            block=printable(block),
            path=item.modules[-1].path if item.modules else None,
            type=item.modules[-1].type if item.modules else None,
            own_ns=item.own,
            total_ns=item.total,
        )
        for block, times in _module_times(trace, symbols)
        for item in times
    ]


def known_columns(symbols: _Known, arguments: _Given) -> list[Column]:
    """Return columns to show next to the times of operators."""
    columns: list[Column] = []
    if symbols is not None:
        columns.append(("op types", _of(symbols, lambda found: ", ".join(found.op_types))))
        columns.append(("module", _of(symbols, _module)))
    if arguments is not None:
        columns.append(("inputs", _of(arguments, lambda found: ", ".join(_texts(found.inputs)))))
    return columns


def print_sources(console: Console, trace: Trace, symbols: _Known) -> None:
    """Print the Python source lines of operators, in log order."""
    if symbols is None:
        return
    for operator in operator_statistics(trace):
        found = symbols[int(operator.rows[0])]
        if found is None or operator.name == OPERATOR_CALL:
            continue
        for node, stack in found.stack_traces.items():
            name = f"{with_delegate(operator)} (instruction {operator.instruction})"
            show_line(console, f"{name}: {node}", style="bold")
            for line in (stack or "no stack trace").splitlines():
                show_line(console, f"  {line}")
    show_line(console)


def print_modules(
    console: Console, trace: Trace, symbols: _Known, unit: DisplayUnit | None = None
) -> None:
    """Print the time of each module, longest first: every instruction is in exactly one's own time.

    Raises:
        UsageError: There are no symbols, or the rate of a clock is unknown.
    """
    for block, times in _module_times(trace, symbols):
        whole = sum(item.own for item in times)
        if not times:
            continue
        unit_here = unit or time_unit(item.total for item in times)
        headers = ["module", "class", f"total [{unit_here.name}]", f"own [{unit_here.name}]"]
        rows = [
            [
                *_names(item),
                unit_here.text(item.total),
                unit_here.text(item.own),
                f"{100 * item.own / whole:.1f}" if whole else "",
            ]
            for item in sorted(times, key=lambda item: item.total, reverse=True)
        ]
        headers.append("own [%]")
        show_table(console, headers, rows, title=f"Modules of {block}", numbers=range(2, 5))


def print_comparisons(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print comparisons of outputs with their references, if any."""
    if not comparisons:
        return
    names = [*comparisons[0][2]]
    rows = [
        [str(run), str(number), *(_number(metrics[name]) for name in names)]
        for run, number, metrics in comparisons
    ]
    headers = ["run", "output", *(_UNITS.get(name, name) for name in names)]
    show_table(console, headers, rows, title="Outputs", numbers=range(len(headers)))


def comparison_documents(comparisons: Sequence[Comparison]) -> list[OutputDocument]:
    """Return the comparisons as JSON; infinite and undefined metrics become null."""
    return [
        OutputDocument(
            run,
            number,
            {
                name: value if value is not None and np.isfinite(value) else None
                for name, value in metrics.items()
            },
        )
        for run, number, metrics in comparisons
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _names(item: ModuleTime) -> list[str]:
    if not item.modules:
        return ["(unknown)", ""]
    return [item.path or "(model)", item.modules[-1].type.rpartition(".")[2]]


def _module_times(trace: Trace, symbols: _Known) -> list[tuple[str, list[ModuleTime]]]:
    if symbols is None:
        raise UsageError("times by module need to know modules", hint="give the --etrecord")
    from dataclasses import replace

    times = _nanoseconds(trace)
    names = dict.fromkeys(block.name for block in trace.blocks)
    return [
        (
            name,
            module_times(
                replace(trace, blocks=tuple(b for b in trace.blocks if b.name == name)),
                symbols,
                times,
            ),
        )
        for name in names
    ]


def _nanoseconds(trace: Trace) -> np.ndarray:
    """Return durations of events in nanoseconds, shape (n,).

    Raises:
        UsageError: The rate of a clock or the duration of an event is unknown.
    """
    for number, domain in enumerate(trace.clocks):
        if domain.hz is None and (trace.clock == number).any():
            raise UsageError(
                f"clock {domain.name!r} has no known rate, so modules have no times",
                hint="give --clock-hz",
            )
    if unknown := int(ends_before_start(trace).sum()):
        raise UsageError(
            f"{unknown} events end before they start, so modules have no times",
            hint="`etharness check` says what may be wrong with the clock",
        )
    return event_nanoseconds(trace, durations(trace))


def _of(known: Sequence[object | None], text: Callable[..., str]) -> Callable[[Operator], str]:
    def cell(operator: Operator) -> str:
        found = known[int(operator.rows[0])]
        return "" if found is None else text(found)

    return cell


def _module(found: EventSymbols) -> str:
    return found.module[-1].path or "(model)" if found.module else ""


def _texts(arguments: Sequence[Argument]) -> tuple[str, ...]:
    return tuple(printable(item.text) for item in arguments)
