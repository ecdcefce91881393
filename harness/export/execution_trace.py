"""PyTorch's execution trace, JSON of schema 1.1.1-chakra.0.0.4, with times.

PyTorch writes no times. Chakra's linker would add ``ts``, ``inclusive_dur`` and ``exclusive_dur``
(microseconds) from a second file; this file already has them, so the converter needs no other.
Delegate events have ``cat`` and ``stream``, like kernels of an accelerator.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from harness.decode.program import Method
from harness.export.nodes import GraphNode, graph
from harness.export.timeline import draw
from harness.records.trace import Trace

SCHEMA: Final = "1.1.1-chakra.0.0.4"
"""The version that PyTorch 2.13 writes."""

NO_MODEL: Final = "operands and data dependencies are unknown without --model"
"""Note of a graph without them."""


def write_execution_trace(trace: Trace, method: Method | None) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Args:
        trace: The trace.
        method: The executed method; without it operands are unknown.

    Raises:
        UsageError: The rate of the tracer's clock is unknown.
        NotComparableError: The trace is not of this method.
    """
    drawing = draw(trace, method)
    nodes = graph(drawing, method)
    head = {
        "schema": SCHEMA,
        "pid": 1,
        "time": "",
        "start_ts": 0,
        "finish_ts": nodes[0].duration // 1000,
    }
    lines = ",\n".join(json.dumps(_node(node)) for node in nodes)
    text = json.dumps(head)[:-1] + ', "nodes": [\n' + lines + "\n]}\n"
    notes = drawing.notes if method else (*drawing.notes, NO_MODEL)
    return text.encode(), notes


def _node(node: GraphNode) -> dict[str, Any]:
    document = {
        "id": node.id,
        "name": node.name,
        "ctrl_deps": node.parent,
        "inputs": asdict(node.inputs),
        "outputs": asdict(node.outputs),
        "attrs": [
            {"name": name, "type": type_, "value": value}
            for name, type_, value in (
                ("rf_id", "uint64", node.record),
                ("fw_parent", "uint64", 0),
                ("seq_id", "int64", -1),
                ("scope", "uint64", node.scope),
                ("tid", "uint64", node.thread),
                ("fw_tid", "uint64", 0),
                ("op_schema", "string", node.schema),
                ("kernel_backend", "string", ""),
                ("kernel_file", "string", ""),
                ("tensor_range", "string", ""),
            )
        ],
        "ts": node.start / 1000,
        "inclusive_dur": node.duration / 1000,
        "exclusive_dur": node.own / 1000,
    }
    if node.stream is not None:
        document |= {"cat": "kernel", "stream": node.stream}
    return document
