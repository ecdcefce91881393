"""Looks up events in an ETRecord: debug handles, operators, stack traces, modules, backend.

ExecuTorch gives events outside of instructions the instruction id 0; they differ from events of
instruction 0 only by their unset chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.decode.program import Method
from harness.errors import UsageError
from harness.inspector.etrecord import ETRecord, MethodRecord, as_tuple, read_etrecord
from harness.records.symbols import EtrecordNode, EventSymbols, Handles, ModuleTime, Stack
from harness.records.trace import DELEGATE_CALL, Kind, Trace, is_wrapper


class SymbolTable:
    """The symbols of one method."""

    def __init__(self, method: MethodRecord, nodes: tuple[EtrecordNode, ...]) -> None:
        """Join a method's maps with the graph nodes that have its debug handles."""
        self._method = method
        self._nodes: dict[int, list[EtrecordNode]] = {}
        for node in nodes:
            if node.debug_handle is not None:
                self._nodes.setdefault(node.debug_handle, []).append(node)

    def find(
        self, chain: int, instruction: int, name: str = "", delegate: int | str | None = None
    ) -> EventSymbols | None:
        """Return the symbols of an event; None if it belongs to no instruction of the method.

        Args:
            chain: Its chain, -1 if unset.
            instruction: Its instruction id.
            name: Its name.
            delegate: Its delegate id; must equal the id that the backend mapped.
        """
        if chain < 0 or instruction not in self._method.handles:
            return None
        handles: Handles | None = self._method.handles[instruction]
        outputs = self._method.outputs.get(instruction, 1)
        known = self._method.delegates.get(instruction)
        if delegate is None:
            backend = known.name if known is not None and name == DELEGATE_CALL else None
        elif known is None:
            backend = None
        else:
            backend = known.name
            handles = known.handles.get(str(delegate))
        nodes = [] if handles is None else [self._nodes.get(n, ()) for n in as_tuple(handles)]
        return EventSymbols(
            handles, tuple(node for group in nodes for node in group), backend, outputs
        )


def symbol_table(record: ETRecord, method: str | None = None) -> SymbolTable:
    """Return the symbols of one method of a record.

    Args:
        record: The record.
        method: Its name; optional if there is only one.

    Raises:
        UsageError: The method is unknown or ambiguous, or the record has no graph of it.
    """
    name = record.method(method)
    if name not in record.edge:
        raise UsageError(
            f"{record.path}: no edge dialect graph of method {name!r}",
            hint="generate the ETRecord with the edge dialect program",
        )
    return SymbolTable(record.methods[name], record.edge[name])


def read_symbols(
    path: Path, names: Sequence[str | None], trace: Trace, methods: Sequence[Method | None]
) -> list[EventSymbols | None]:
    """Read the record at ``path`` and return the symbols of every event, shape (n,).

    Args:
        path: The file of the record.
        names: The methods that ran; None for its only one.
        trace: The events.
        methods: The method of each block, as `symbols_of_blocks` takes them.
    """
    record = read_etrecord(path)
    return symbols_of_blocks(trace, {name: symbol_table(record, name) for name in names}, methods)


def event_symbols(trace: Trace, table: SymbolTable) -> list[EventSymbols | None]:
    """Return the symbols of every event, shape (n,); repeats share one object."""
    columns = (
        trace.kind.tolist(),
        trace.chain.tolist(),
        trace.instruction.tolist(),
        trace.name.tolist(),
        trace.delegate_int.tolist(),
        trace.delegate_str.tolist(),
    )
    known: dict[tuple[int, ...], EventSymbols | None] = {}
    found = []
    for key in zip(*columns, strict=True):
        if key not in known:
            kind, chain, instruction, name, number, text = key
            delegate = number if number != -1 else trace.text(text) or None
            known[key] = (
                None
                if kind == Kind.ALLOCATION or kind >= Kind.TASK
                else table.find(chain, instruction, trace.text(name) or "", delegate)
            )
        found.append(known[key])
    return found


def symbols_of_blocks(
    trace: Trace, tables: Mapping[str | None, SymbolTable], methods: Sequence[Method | None]
) -> list[EventSymbols | None]:
    """Return the symbols of every event, of each block from the table of its method.

    A single table is of all blocks; ``methods`` has the method of each block.
    """
    found = {name: event_symbols(trace, table) for name, table in tables.items()}
    if len(found) == 1:
        return next(iter(found.values()))
    symbols: list[EventSymbols | None] = [None] * len(trace)
    for block, method in zip(trace.blocks, methods, strict=True):
        if method is not None:
            rows = slice(block.first, block.first + block.count)
            symbols[rows] = found[method.name][rows]
    return symbols


def module_times(
    trace: Trace, symbols: Sequence[EventSymbols | None], times: npt.NDArray[np.float64]
) -> list[ModuleTime]:
    """Return the time of each module, in the order of their first operator.

    The time of an instruction is that of its kernel or its DELEGATE_CALL; OPERATOR_CALL, which
    contains both, is ignored. It counts for the innermost module that contains all its operators.
    Times of events in a delegate count for their own modules and are subtracted from the call. If
    their sum exceeds the call, they overlap or have another clock, and the whole call counts for
    its module.

    Args:
        trace: The trace.
        symbols: Symbols of every event, shape (n,).
        times: Duration of every event, all in one unit, shape (n,); NaN if unknown.
    """
    own: dict[Stack, float] = {}
    for _, stack, time in _shares(trace, symbols, times):
        own[stack] = own.get(stack, 0.0) + time
    return _totals(own)


def module_times_by_block(
    trace: Trace, symbols: Sequence[EventSymbols | None], times: npt.NDArray[np.float64]
) -> dict[Stack, dict[int, float]]:
    """Return the time of each module, including submodules, by block number.

    Takes the arguments of ``module_times``, which returns the sums over blocks.
    """
    own: dict[int, dict[Stack, float]] = {}
    for block, stack, time in _shares(trace, symbols, times):
        of_block = own.setdefault(block, {})
        of_block[stack] = of_block.get(stack, 0.0) + time
    found: dict[Stack, dict[int, float]] = {}
    for block, of_block in own.items():
        for item in _totals(of_block):
            found.setdefault(item.modules, {})[block] = item.total
    return found


def _shares(
    trace: Trace, symbols: Sequence[EventSymbols | None], times: npt.NDArray[np.float64]
) -> Iterator[tuple[int, Stack, float]]:
    """Yield block, module and time of each instruction."""
    for block, outer, inner in _instructions(trace, symbols):
        of_inner = float(times[inner].sum())
        of_outer = float(times[outer].sum())
        shared = bool(outer) and of_inner <= of_outer
        parts = [(row, float(times[row])) for row in inner] if shared or not outer else []
        if outer:
            parts.append((outer[0], of_outer - of_inner if shared else of_outer))
        for row, time in parts:
            if (known := symbols[row]) is not None:
                yield block, known.module, time


def _instructions(
    trace: Trace, symbols: Sequence[EventSymbols | None]
) -> list[tuple[int, list[int], list[int]]]:
    """Return block, outer rows and delegate rows of each instruction."""
    groups: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
    chains, instructions = trace.chain.tolist(), trace.instruction.tolist()
    delegated = trace.delegated.tolist()
    for number, block in enumerate(trace.blocks):
        for row in range(block.first, block.first + block.count):
            if trace.kind[row] != Kind.PROFILE or symbols[row] is None:
                continue
            name = trace.text(int(trace.name[row]))
            if is_wrapper(name):
                continue
            key = number, chains[row], instructions[row]
            outer, inner = groups.setdefault(key, ([], []))
            (inner if delegated[row] else outer).append(row)
    return [
        (key[0], _outermost(trace, outer), inner)
        for key, (outer, inner) in groups.items()
        if outer or inner
    ]


def _outermost(trace: Trace, rows: list[int]) -> list[int]:
    """Return the DELEGATE_CALLs among the rows, or all rows without one."""
    calls = [row for row in rows if trace.text(int(trace.name[row])) == DELEGATE_CALL]
    return calls or rows


def _totals(own: dict[Stack, float]) -> list[ModuleTime]:
    totals: dict[Stack, float] = {}
    for stack, time in own.items():
        for length in range(1 if stack else 0, len(stack) + 1):
            totals[stack[:length]] = totals.get(stack[:length], 0.0) + time
    return [ModuleTime(stack, own.get(stack, 0.0), total) for stack, total in totals.items()]
