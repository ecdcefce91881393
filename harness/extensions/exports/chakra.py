"""MLCommons Chakra's execution trace: length-prefixed protocol buffers.

The format has times in whole microseconds, too coarse for many operators of a microcontroller, so
each node also has its times in nanoseconds as attributes.
"""

from __future__ import annotations

import io
from typing import Any, Final

from harness.decode.program import Method
from harness.export.kineto import Operands
from harness.export.perfetto import messages
from harness.export.table import require
from harness.export.timeline import draw
from harness.extensions.exports.execution_trace import NO_MODEL, GraphNode, graph
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import Trace

MESSAGES: Final = {
    "AttributeProto": {
        "name": (1, "string"),
        "int64_val": (9, "int64"),
        "bool_val": (27, "bool"),
        "string_val": (29, "string"),
    },
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "*AttributeProto")},
    "IOInfo": {"values": (1, "string"), "shapes": (2, "string"), "types": (3, "string")},
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "int32"),
        "ctrl_deps": (4, "*uint64"),
        "data_deps": (5, "*uint64"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "inputs": (8, "IOInfo"),
        "outputs": (9, "IOInfo"),
        "attr": (10, "*AttributeProto"),
    },
}
"""The subset of Chakra's messages that is written; enums are integers."""

_VERSION: Final = "0.0.4"
_METADATA, _COMPUTE = 1, 4  # types of a node


def write_chakra(
    trace: Trace, method: Method | None, identity: RunIdentity = NO_RUN
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Args:
        trace: The trace.
        method: The method that was executed; without it nothing is known of operands.
        identity: The run of the trace.

    Raises:
        UsageError: The rate of the tracer's clock is unknown, or protobuf is not installed.
        NotComparableError: The trace is not of this method.
    """
    (proto,) = require("google.protobuf.proto")
    types = messages("etdump_harness.chakra", MESSAGES)
    drawing = draw(trace, method)
    nodes = graph(drawing, method)
    metadata = types["GlobalMetadata"](version=_VERSION)
    _attributes(metadata, {"schema": "etdump-harness", "finish_ns": nodes[0].duration})
    _attributes(metadata, {name: text for name, text in identity.texts().items() if text})
    out = io.BytesIO()
    # The process node is left out; threads are the roots of all other nodes.
    for message in [metadata, *(_message(types["Node"], node) for node in nodes[1:])]:
        proto.serialize_length_prefixed(message, out)
    notes = drawing.notes if method else (*drawing.notes, NO_MODEL)
    return out.getvalue(), notes


def _message(type_: Any, node: GraphNode) -> Any:
    thread = not node.record
    # The busy time of a CPU node excludes its children.
    busy = 0 if thread else node.duration if node.stream is not None else node.own
    message = type_(
        id=node.id,
        name=node.name,
        type=_METADATA if thread else _COMPUTE,
        ctrl_deps=[] if thread else [node.parent],
        data_deps=node.data_deps,
        start_time_micros=node.start // 1000,
        duration_micros=busy // 1000,
        inputs=_operands(node.inputs),
        outputs=_operands(node.outputs),
    )
    attributes: dict[str, int | str | bool] = {
        "is_cpu_op": node.stream is None,
        "rf_id": node.record,
        "scope": node.scope,
        "tid": node.thread,
        "op_schema": node.schema,
        "start_ns": node.start,
        "duration_ns": node.duration,
        "exclusive_ns": node.own,
    }
    if node.stream is not None:
        attributes["stream"] = node.stream
    _attributes(message, attributes)
    return message


def _attributes(message: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        attribute = message.attr.add(name=name)
        if isinstance(value, bool):
            attribute.bool_val = value
        elif isinstance(value, int):
            attribute.int64_val = value
        else:
            attribute.string_val = value


def _operands(operands: Operands) -> dict[str, str]:
    return {
        "values": str(operands.values),
        "shapes": str(operands.shapes),
        "types": str(operands.types),
    }
