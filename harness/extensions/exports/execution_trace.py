"""A trace as a graph, and as PyTorch's execution trace (JSON of schema 1.1.1-chakra.0.0.4).

Each slice of the timeline is a node; so are the process and each tracer, which stands for a thread.
A node is inside the node of the slice around it (a control dependency). Data dependencies come from
the model: an operator depends on those that wrote its inputs. Without a model, each event depends
on the one that began before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from harness.analyze.workload import Argument, Arguments
from harness.decode.program import Method
from harness.export.kineto import Operands, TensorNumbers
from harness.export.timeline import Drawing, draw
from harness.records.result import NO_RUN, RunIdentity
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


SCHEMA: Final = "1.1.1-chakra.0.0.4"
"""The version that PyTorch 2.13 writes."""

NO_MODEL: Final = "operands and data dependencies are unknown without --model"
"""Note of a graph without them."""


def write_execution_trace(
    trace: Trace, method: Method | None, identity: RunIdentity = NO_RUN
) -> tuple[bytes, tuple[str, ...]]:
    """Return the file, and notes on data of the trace that it lacks.

    Args:
        trace: The trace.
        method: The executed method; without it operands are unknown.
        identity: The run of the trace.

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
        **{name: text for name, text in identity.texts().items() if text and name != "time"},
        "emulated_time": identity.emulated_time,
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
