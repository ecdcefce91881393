"""A trace as a graph: MLCommons Chakra's execution trace, protocol buffers.

Each slice of the timeline is a node; so are the process and each tracer, which stands for a thread.
A node is inside the node of the slice around it (a control dependency). Data dependencies come from
the model: an operator depends on those that wrote its inputs. Without a model, each event depends
on the one that began before it.

Chakra's format has times in whole microseconds, too coarse for many operators of a microcontroller,
so each of its nodes also has its times in nanoseconds as attributes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from harness.analyze.workload import Argument, Arguments
from harness.decode.program import Method
from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.kineto import Operands, TensorNumbers
from harness.extensions.exports.perfetto import messages
from harness.extensions.exports.timeline import Drawing, draw
from harness.plugins import require
from harness.records.trace import Trace

PROCESS: Final = "[pytorch|profiler|execution_trace|process]"
THREAD: Final = "[pytorch|profiler|execution_trace|thread]"
"""Names of the graph's roots that PyTorch's readers expect."""

OPERATOR_SCOPE, USER_SCOPE = 0, 7
"""PyTorch's record types of a function and of an annotation."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph.

    Attributes:
        id: From 1; what a node depends on has a smaller id.
        name: Of the event.
        parent: Id of the node around it.
        data_deps: Ids of the nodes it needs results of.
        record: The number of its event in other exports (``External id``), 0 for the roots.
        thread: Number of its tracer, from 1; 0 for the process.
        scope: OPERATOR_SCOPE or USER_SCOPE.
        schema: Operator and overload, or "".
        start: Nanoseconds.
        duration: Nanoseconds.
        own: Nanoseconds, of its duration, that nothing within it takes.
        stream: Number of the delegate's track it ran on, None on a CPU.
        inputs: What it was given.
        outputs: What it gave.
    """

    id: int
    name: str
    parent: int
    data_deps: tuple[int, ...] = ()
    record: int = 0
    thread: int = 0
    scope: int = USER_SCOPE
    schema: str = ""
    start: int = 0
    duration: int = 0
    own: int = 0
    stream: int | None = None
    inputs: Operands = field(default_factory=Operands)
    outputs: Operands = field(default_factory=Operands)


def graph(drawing: Drawing, method: Method | None) -> list[GraphNode]:
    """Return all nodes by id.

    Args:
        drawing: Of the trace, with the same method.
        method: The method that was executed, None when it is not known.
    """
    end = int(drawing.end.max(initial=0))
    tracers = sorted({track.tracer for track in drawing.tracks})
    nodes = [GraphNode(1, PROCESS, 1, duration=end)]
    nodes += (
        GraphNode(2 + index, THREAD, 1, thread=tracer + 1, duration=end)
        for index, tracer in enumerate(tracers)
    )
    thread_of = {tracer: 2 + index for index, tracer in enumerate(tracers)}
    first = len(nodes) + 1
    numbers = TensorNumbers(method, first + len(drawing))
    needs = _data_flow(drawing) if method else _order(drawing)
    direct = {event for _, event in drawing.flows}
    for number, row in enumerate(drawing.row.tolist()):
        parent = int(drawing.parent[number])
        tracer = drawing.tracks[int(drawing.track[number])].tracer
        arguments = drawing.given[number]
        nodes.append(
            GraphNode(
                id=first + number,
                name=drawing.name(number),
                parent=thread_of[tracer] if parent < 0 else first + parent,
                data_deps=tuple(first + need for need in needs[number])
                or ((thread_of[tracer],) if parent < 0 else ()),
                record=row + 1,
                thread=tracer + 1,
                scope=OPERATOR_SCOPE if drawing.trace.chain[row] != -1 else USER_SCOPE,
                schema=arguments.instruction.name if arguments else "",
                start=int(drawing.start[number]),
                duration=int(drawing.end[number] - drawing.start[number]),
                own=int(drawing.own[number]),
                stream=int(drawing.track[number]) if number in direct else None,
                inputs=numbers.operands(arguments.inputs if arguments else ()),
                outputs=numbers.operands(arguments.outputs if arguments else ()),
            )
        )
    return nodes


def _order(drawing: Drawing) -> list[list[int]]:
    """Return dependencies by order: each slice depends on its tracer's previous slice."""
    latest: dict[int, int] = {}
    needs: list[list[int]] = []
    for number in range(len(drawing)):
        tracer = drawing.tracks[int(drawing.track[number])].tracer
        needs.append([latest[tracer]] if tracer in latest else [])
        latest[tracer] = number
    return needs


def _data_flow(drawing: Drawing) -> list[list[int]]:
    """Return dependencies by data: each slice depends on its parent, and on its inputs' writers.

    What is around nothing needs the one before it, and what a delegate logs its predecessor in
    the same call.
    """
    writers: dict[int, int] = {}
    latest: dict[tuple[int, int], int] = {}
    needs: list[list[int]] = []
    blocks = drawing.blocks().tolist()
    for number, arguments in enumerate(drawing.given):
        if number and blocks[number] != blocks[number - 1]:
            writers.clear()  # another execution begins
        parent, track = int(drawing.parent[number]), int(drawing.track[number])
        needed = [parent] if parent >= 0 else []
        if parent < 0 or drawing.tracks[track].call is not None:
            needed += [latest[parent, track]] if (parent, track) in latest else []
            latest[parent, track] = number
        if arguments is not None:
            needed += _writers(arguments, writers)
            for output in arguments.outputs:
                writers[output.number] = number
        needs.append(sorted(set(needed)))
    return needs


def _writers(arguments: Arguments, writers: dict[int, int]) -> Iterator[int]:
    for argument in arguments.inputs:
        for number in value_numbers(argument):
            if number in writers:
                yield writers[number]


def value_numbers(argument: Argument) -> tuple[int, ...]:
    """Return the number of an argument's value, and the numbers of a list's members."""
    return (argument.number, *getattr(argument.value, "numbers", ()))


NO_MODEL: Final = "operands and data dependencies are unknown without --model"
"""Note of a graph without them."""


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


def write_chakra(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on data of the trace that it lacks.

    Raises:
        UsageError: The rate of the tracer's clock is unknown, or protobuf is not installed.
        NotComparableError: The trace is not of the request's method.
    """
    (proto,) = require("export", "this format", "google.protobuf.proto")
    types = messages("etdump_harness.chakra", MESSAGES)
    method = request.method
    drawing = draw(trace, method, wrappers=True)
    nodes = graph(drawing, method)
    metadata = types["GlobalMetadata"](version=_VERSION)
    _attributes(metadata, {"schema": "etdump-harness", "finish_ns": nodes[0].duration})
    _attributes(metadata, {name: text for name, text in request.identity.texts().items() if text})
    out = io.BytesIO()
    # The process node is left out; threads are the roots of all other nodes.
    for message in [metadata, *(_message(types["Node"], node) for node in nodes[1:])]:
        proto.serialize_length_prefixed(message, out)
    notes = drawing.notes if method else (*drawing.notes, NO_MODEL)
    return Exported(out.getvalue(), notes)


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


CHAKRA: Final = ExportFormat(
    "MLCommons Chakra's execution trace, protocol buffers (.et).", write_chakra
)
