"""The ETRecord of an Inspector: a file, or ExecuTorch's object for one."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from harness.decode.etrecord import (
    Delegate,
    ETRecord,
    EtrecordNode,
    Handles,
    MethodRecord,
    Module,
    as_tuple,
    read_etrecord,
    read_graph,
)
from harness.errors import UsageError
from harness.extras import require

EDGE_GRAPH = "edge_dialect_graph_module"
"""ExecuTorch's name of the graph with the debug handles."""

_NOT_OPERATORS = ("getitem", "alloc")


class InspectorRecord:
    """A record; its programs and tensors are loaded on first use."""

    def __init__(self, given: Any) -> None:
        """Read a path, or take the maps and graphs of an ETRecord object.

        Raises:
            TypeError: The argument is neither a path nor an ETRecord.
            UsageError: The file was not found.
            FormatError: The file is not an ETRecord, or is damaged.
        """
        self._live: Any = None
        if isinstance(given, str | Path):
            self.symbols = read_etrecord(Path(given))
        elif hasattr(given, "edge_dialect_program") and hasattr(given, "_debug_handle_map"):
            self._live = given
            self.symbols = _from_live(given)
        else:
            raise TypeError(f"etrecord must be a path or an ETRecord, not {type(given).__name__}")

    def graph(self, name: str, method: str) -> tuple[EtrecordNode, ...]:
        """Return the nodes of the graph ``name``; for the edge dialect, the graph of ``method``.

        Raises:
            UsageError: The record has no such graph.
        """
        if name == EDGE_GRAPH:
            if method not in self.symbols.edge:
                raise UsageError(f"the ETRecord has no edge dialect graph of method {method!r}")
            return self.symbols.edge[method]
        if self._live is None:
            return read_graph(self.symbols.path, name)
        graphs = self._live.graph_map or {}
        if name not in graphs:
            raise UsageError(f"the ETRecord has no graph {name!r}", hint=f"its graphs: {[*graphs]}")
        return _nodes(graphs[name])

    def program(self) -> Any:
        """Return ExecuTorch's ETRecord object with executable exported programs.

        Raises:
            UsageError: ExecuTorch is not installed.
        """
        if self._live is None:
            (module,) = require("oracle", "an exported program", "executorch.devtools.etrecord")
            self._live = module.parse_etrecord(str(self.symbols.path))
        return self._live

    def reference_outputs(self, method: str) -> list[list[Any]] | None:
        """Return the reference outputs by bundled input; None if the record has none.

        Raises:
            UsageError: PyTorch, which the tensors need, is not installed.
        """
        if self._live is not None:
            outputs = self._live._reference_outputs
        else:
            with ZipFile(self.symbols.path) as archive:
                if "reference_outputs" not in archive.namelist():
                    return None
                data = archive.read("reference_outputs")
            (torch,) = require("oracle", "a reference output", "torch")
            outputs = torch.load(io.BytesIO(data), weights_only=True)
        found: list[list[Any]] | None = None if outputs is None else outputs.get(method)
        return found


def _from_live(record: Any) -> ETRecord:
    """Return the maps and graphs of an ETRecord object."""
    handles, delegates = record._debug_handle_map or {}, record._delegate_map or {}
    outputs = record._instruction_id_to_num_outs_map or {}
    programs = record.edge_dialect_program
    if not isinstance(programs, Mapping):
        programs = {} if programs is None else {"forward": programs}
    return ETRecord(
        path=Path("ETRecord object"),
        methods={
            method: MethodRecord(
                {int(number): _handles(found) for number, found in of_method.items()},
                {
                    int(number): _delegate(found)
                    for number, found in (delegates.get(method) or {}).items()
                },
                {int(number): count for number, count in (outputs.get(method) or {}).items()},
            )
            for method, of_method in handles.items()
        },
        edge={method: _nodes(program) for method, program in programs.items()},
        export_graph_id=record.export_graph_id or 0,
        graphs=tuple(record.graph_map or ()),
    )


def _handles(found: Any) -> Handles:
    return found if isinstance(found, int) else as_tuple(found)


def _delegate(found: Mapping[str, Any]) -> Delegate:
    mapped = found.get("delegate_map") or {}
    return Delegate(
        found.get("name") or "", {str(key): _handles(value) for key, value in mapped.items()}
    )


def _nodes(program: Any) -> tuple[EtrecordNode, ...]:
    """Return the operators of an exported program."""
    return tuple(
        EtrecordNode(
            node.name,
            node.target.__name__,
            node.meta.get("debug_handle"),
            node.meta.get("stack_trace"),
            _modules(node.meta.get("nn_module_stack")),
        )
        for node in program.graph_module.graph.nodes
        if node.op == "call_function" and node.target.__name__ not in _NOT_OPERATORS
    )


def _modules(stack: Mapping[Any, Any] | None) -> tuple[Module, ...] | None:
    if not stack:
        return None
    return tuple(
        Module(
            str(key),
            path,
            type_ if isinstance(type_, str) else f"{type_.__module__}.{type_.__qualname__}",
        )
        for key, (path, type_) in stack.items()
    )
