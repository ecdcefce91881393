"""Looks up events in an ETRecord: debug handles, operators, stack traces, modules, backend.

ExecuTorch gives events outside of instructions the instruction id 0; they differ from events of
instruction 0 only by their unset chain.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.decode.etrecord import ETRecord, EtrecordNode, Handles, MethodRecord, Module, as_tuple
from harness.errors import UsageError
from harness.records.trace import DELEGATE_CALL, Kind, Trace


@dataclass(frozen=True, slots=True)
class EventSymbols:
    """The ETRecord data of an event.

    Attributes:
        handles: Debug handles of its operators; None if the record has no mapping for it.
        nodes: These operators, possibly several per handle.
        backend: Name of the delegate's backend; None outside of delegates.
        outputs: Number of outputs of its instruction; 1 if the record does not have it.
    """

    handles: Handles | None
    nodes: tuple[EtrecordNode, ...] = ()
    backend: str | None = None
    outputs: int = 1

    @property
    def op_types(self) -> tuple[str, ...]:
        """The operator of each node."""
        return tuple(node.op for node in self.nodes)

    @property
    def stack_traces(self) -> dict[str, str | None]:
        """The Python stack trace of each node, by node name."""
        return {node.name: node.stack_trace for node in self.nodes}

    @property
    def module(self) -> tuple[Module, ...]:
        """The modules that contain all nodes, the model first; empty if unknown."""
        stacks = [node.modules for node in self.nodes if node.modules is not None]
        if not stacks:
            return ()
        common = stacks[0]
        for stack in stacks[1:]:
            length = 0
            for mine, yours in zip(common, stack, strict=False):
                if mine != yours:
                    break
                length += 1
            common = common[:length]
        return common


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
                if kind == Kind.ALLOCATION
                else table.find(chain, instruction, trace.text(name) or "", delegate)
            )
        found.append(known[key])
    return found
