"""Time per module, in the Inspector's unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.inspector.event import EventBlock
from harness.inspector.times import Times
from harness.trace import Trace
from harness.view.modules import module_times, time_of_module
from harness.view.symbols import SymbolTable, event_symbols


def total_for_module(
    blocks: Sequence[EventBlock], trace: Trace, times: Times, table: SymbolTable, name: str
) -> float:
    """Average time per run within the modules of a name, summed over kinds of runs."""
    symbols = event_symbols(trace, table)
    total = 0.0
    for block in blocks:
        runs = replace(trace, blocks=tuple(trace.blocks[number] for number in block.runs))
        found = module_times(runs, symbols, times.durations)
        total += time_of_module(found, name) / len(block.runs)
    return total
