"""Stand-ins for exported programs and ETRecord objects, which need torch to be real.

What the real ones do is shown in ``tests/oracle/test_inspector_same.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


class Tensor(np.ndarray):
    """An array that has what is used of a torch tensor; equal only to itself, as a key."""

    __hash__ = object.__hash__

    def _itself(self) -> Tensor:
        return self

    detach = clone = cpu = double = _itself

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


def tensor(*values: float) -> Tensor:
    return np.array(values, np.float32).view(Tensor)


@dataclass(eq=False)
class Node:
    """A node of a graph, and the value it has when the graph is executed."""

    name: str
    value: Any = None
    handle: int | None = None
    op: str = "call_function"
    origin: tuple[str, int] | None = None
    target: Any = None
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.target = SimpleNamespace(__name__=f"aten.{self.name}")
        self.meta["stack_trace"] = f"File of {self.name}"
        if self.handle is not None:
            self.meta["debug_handle"] = self.handle
        if self.origin is not None:
            name, graph_id = self.origin
            self.meta["from_node"] = [SimpleNamespace(name=name, graph_id=graph_id, from_node=[])]


class Program:
    """An exported program; also what its ``module()`` returns."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.graph = SimpleNamespace(nodes=[Node("x", op="placeholder"), *nodes])
        self.graph_module = self

    def module(self) -> Program:
        return self


class Interpreter:
    """Executes a graph: every node has its value."""

    def __init__(self, graph: Program) -> None:
        self.graph = graph.graph

    def run(self, *_: Any, enable_io_processing: bool = True) -> None:
        for node in self.graph.nodes:
            self.run_node(node)

    def run_node(self, node: Node) -> Any:
        return node.value


def install_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``import torch`` find the stand-ins."""
    torch, fx = ModuleType("torch"), ModuleType("torch.fx")
    torch.__dict__.update(Tensor=Tensor, fx=fx)
    fx.__dict__.update(Interpreter=Interpreter)
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    monkeypatch.setitem(__import__("sys").modules, "torch.fx", fx)


def record_of(
    edge: Any,
    handles: Mapping[Any, Any],
    *,
    exported: Program | None = None,
    delegates: Mapping[Any, Any] | None = None,
    outputs: Mapping[Any, int] | None = None,
    graphs: Mapping[str, Program] | None = None,
    references: Any = None,
    inputs: Any = ((1,),),
) -> Any:
    """An ETRecord object of the method ``forward``."""
    return SimpleNamespace(
        edge_dialect_program=edge,
        exported_program=exported,
        export_graph_id=7,
        graph_map=graphs,
        _debug_handle_map={"forward": handles},
        _delegate_map={"forward": delegates or {}},
        _instruction_id_to_num_outs_map={"forward": outputs or {}},
        _reference_outputs=references,
        _representative_inputs=inputs,
    )
