"""What an ETRecord knows of each event: debug handles, operators, stack traces, modules, backend.

ExecuTorch gives every event an instruction id, those outside of instructions 0; only the chain,
which is unset for them, tells these from events of instruction 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.decode.etrecord import ETRecord, EtrecordNode, Handles, MethodRecord, Module, as_tuple
from harness.errors import UsageError
from harness.records.trace import DELEGATE_CALL, Kind, Trace


@dataclass(frozen=True, slots=True)
class EventSymbols:
    """What is known of an event.

    Attributes:
        handles: Debug handles of the operators behind it; None when the record maps nothing.
        nodes: These operators; of one handle there may be several.
        backend: Name of the delegate's backend; None outside of delegates.
        outputs: How many outputs its instruction has, as far as the record says, else 1.
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
        """Where each node comes from in the model's Python."""
        return {node.name: node.stack_trace for node in self.nodes}

    @property
    def module(self) -> tuple[Module, ...]:
        """The modules around all nodes, the model first; empty when nothing is known."""
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
        """Join a method's maps with the nodes of a graph that carry its debug handles."""
        self._method = method
        self._nodes: dict[int, list[EtrecordNode]] = {}
        for node in nodes:
            if node.debug_handle is not None:
                self._nodes.setdefault(node.debug_handle, []).append(node)

    def find(
        self, chain: int, instruction: int, name: str = "", delegate: int | str | None = None
    ) -> EventSymbols | None:
        """What is known of an event; None when it belongs to no instruction of the method.

        Args:
            chain: Its chain, -1 for none.
            instruction: Its instruction id.
            name: Its name.
            delegate: Its delegate id; only the very id that the backend mapped is found.
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
    """The symbols of one of a record's methods.

    Args:
        record: The record.
        method: Its name; unnecessary when there is only one.

    Raises:
        UsageError: There is no such method, or there are several, or the record lacks its graph.
    """
    name = record.method(method)
    if name not in record.edge:
        raise UsageError(f"{record.path} has no edge dialect graph of method {name!r}")
    return SymbolTable(record.methods[name], record.edge[name])


def event_symbols(trace: Trace, table: SymbolTable) -> list[EventSymbols | None]:
    """The symbols of every event, shape (n,); repeats share one object."""
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
