"""What an ETRecord adds on the terminal and in JSON: modules, source lines, reference outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.analyze.statistics import operator_statistics
from harness.analyze.ticks import durations, event_nanoseconds, unknown_durations
from harness.errors import UsageError
from harness.formatting import DisplayUnit, printable, time_unit
from harness.inspector.symbols import module_times
from harness.records.symbols import EventSymbols, ModuleTime
from harness.records.trace import Trace, is_wrapper
from harness.report.terminal import show_line, show_table
from harness.report.traces import ModuleDocument, OutputDocument
from harness.report.words import with_delegate

if TYPE_CHECKING:
    from rich.console import Console

_Known = Sequence[EventSymbols | None] | None

_UNITS = {"snr": "snr [dB]"}


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


def _names(item: ModuleTime) -> list[str]:
    if not item.modules:
        return ["(unknown)", ""]
    return [item.path or "(model)", item.modules[-1].type.rpartition(".")[2]]


def _module_times(trace: Trace, symbols: _Known) -> list[tuple[str, list[ModuleTime]]]:
    if symbols is None:
        raise UsageError("times by module need to know modules", hint="give the --etrecord")
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
    if unknown := int(unknown_durations(trace).sum()):
        raise UsageError(
            f"the duration of {unknown} events is unknown, so modules have no times",
            hint="`etharness check` says what may be wrong with the clock",
        )
    return event_nanoseconds(trace, durations(trace))


def print_etrecord(
    console: Console, trace: Trace, symbols: _Known, comparisons: Sequence[OutputDocument]
) -> None:
    """Print the Python source lines of operators, then outputs compared with their references."""
    if symbols is not None:
        _print_sources(console, trace, symbols)
    if comparisons:
        _print_comparisons(console, comparisons)


def _print_sources(console: Console, trace: Trace, symbols: Sequence[EventSymbols | None]) -> None:
    """Print the Python source lines of operators, in log order."""
    for operator in operator_statistics(trace):
        found = symbols[int(operator.rows[0])]
        if found is None or is_wrapper(operator.name):
            continue
        for node, stack in found.stack_traces.items():
            name = f"{with_delegate(operator)} (instruction {operator.instruction})"
            show_line(console, f"{name}: {node}", style="bold")
            for line in (stack or "no stack trace").splitlines():
                show_line(console, f"  {line}")
    show_line(console)


def _print_comparisons(console: Console, comparisons: Sequence[OutputDocument]) -> None:
    """Print comparisons of outputs with their references."""
    names = [*comparisons[0].metrics]
    rows = [
        [str(item.run), str(item.output), *(_number(item.metrics[name]) for name in names)]
        for item in comparisons
    ]
    headers = ["run", "output", *(_UNITS.get(name, name) for name in names)]
    show_table(console, headers, rows, title="Outputs", numbers=range(len(headers)))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
