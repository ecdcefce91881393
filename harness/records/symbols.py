"""What an ETRecord says of events: operators, stack traces, modules, and the time of modules."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

Handles = int | tuple[int, ...]
"""One debug handle, or several for a fused operator."""


class Module(msgspec.Struct, frozen=True):
    """A module of the model.

    Attributes:
        key: The exporter's name, such as ``L__self__encoder.layers.0``.
        path: Path in the model, such as ``encoder.layers.0``; "" is the model itself.
        type: Class name.
    """

    key: str
    path: str
    type: str


@dataclass(frozen=True, slots=True)
class EtrecordNode:
    """An operator of a graph.

    Attributes:
        name: Unique name in its graph, such as ``aten_addmm_default_1``.
        op: Operator, such as ``aten.addmm.default``.
        debug_handle: Debug handle; None if the exporter assigned no handle.
        stack_trace: Python stack trace of its source, or None.
        modules: The enclosing modules, the model first; None if the exporter recorded no modules.
    """

    name: str
    op: str
    debug_handle: int | None
    stack_trace: str | None
    modules: tuple[Module, ...] | None


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


Stack = tuple[Module, ...]


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """The time of a module's operators.

    Attributes:
        modules: The enclosing modules, then the module; empty for operators of unknown module.
        own: Time of its own operators.
        total: Time including submodules.
    """

    modules: Stack
    own: float
    total: float

    @property
    def path(self) -> str:
        """Path of the module in the model; "" is the model itself."""
        return self.modules[-1].path if self.modules else ""
