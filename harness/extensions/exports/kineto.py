"""Chrome's JSON trace format as the PyTorch profiler (Kineto) writes it.

Times are microseconds with three decimals, so ``ts * 1000 + baseTimeNanoseconds`` is the exact
nanosecond, and small, so that a float64 holds them. Slices are called by operator and instruction.

Ids of tensors are assigned as by the PyTorch profiler. An address does not identify a tensor: freed
memory is reused, and a tensor may move. So each lifetime at an address is a storage of its own, and
storages that held the same tensor share its id.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np

from harness.analyze.workload import Argument, lifetimes
from harness.decode.program import Method, Tensor, Value, ValueList
from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.timeline import (
    WITH_WRAPPERS,
    WRAPPER_FLAVOURS,
    Drawing,
    Track,
    draw,
    process_labels,
    process_name,
)
from harness.records.result import NO_RUN, RunIdentity
from harness.records.trace import STORED_AS, Kind, Trace, type_name

PID: Final = 1
"""The one process: the target."""

_PHASE_THREADS: Final = 1_000_000
"""First thread id of executions, above the ids of tracks and losses."""

_CONTEXT_THREADS: Final = 2_000_000
"""First thread id of tasks and interrupts, above those of executions."""

Event = dict[str, Any]


def threads(tracks: tuple[Track, ...], identity: RunIdentity = NO_RUN) -> Iterator[Event]:
    """Yield the names of the process and its threads, one per track; thread ids start at 1."""
    yield _named("process_name", 0, name=process_name(identity))
    labels = ["ExecuTorch", *process_labels(identity)]
    yield _named("process_labels", 0, labels=", ".join(labels))
    for tid, track in enumerate(tracks, start=1):
        yield _named("thread_name", tid, name=track.name)
        yield _named("thread_sort_index", tid, sort_index=tid)


def slice_event(drawing: Drawing, number: int, category: str) -> Event:
    """Return a slice as a complete event with its exact name."""
    arguments: dict[str, Any] = {**drawing.arguments(number)}
    arguments["kind"] = drawing.titles[number].kind.value
    # Ids by which readers match events of this file and of PyTorch's execution trace.
    arguments["External id"] = arguments["Record function id"] = int(drawing.row[number]) + 1
    arguments["Ev Idx"] = arguments.pop("event")
    if (given := drawing.given[number]) is not None:
        operands = TensorNumbers(None, 1).operands(given.inputs)
        arguments |= profiler_inputs(operands)
    start = int(drawing.start[number])
    return {
        **{"ph": "X", "cat": category, "name": drawing.name(number), "pid": PID},
        **{"tid": int(drawing.track[number]) + 1, "ts": start},
        **{"dur": int(drawing.end[number]) - start, "args": arguments},
    }


def flow_events(drawing: Drawing) -> Iterator[Event]:
    """Yield an arrow from each delegate call to each of its events."""
    numbers = count(1)
    for call, event in drawing.flows:
        start = int(drawing.start[event])
        flow = {"cat": "ac2g", "name": "ac2g", "id": next(numbers), "pid": PID}
        yield flow | {"ph": "s", "tid": int(drawing.track[call]) + 1, "ts": start}
        yield flow | {"ph": "f", "tid": int(drawing.track[event]) + 1, "ts": start, "bp": "e"}


def counter_events(drawing: Drawing) -> Iterator[Event]:
    """Yield the value of each counter after each change."""
    for counter in drawing.counters:
        for time, value in zip(counter.time.tolist(), counter.value.tolist(), strict=True):
            yield {
                "ph": "C",
                "name": counter.title,
                "pid": PID,
                "ts": time,
                "args": {counter.unit: value},
            }


def phase_events(drawing: Drawing) -> Iterator[Event]:
    """Yield loading and executions, on a thread per tracer above the others."""
    threads_used: dict[int, int] = {}
    for phase in drawing.phases:
        if phase.tracer not in threads_used:
            tid = threads_used[phase.tracer] = _PHASE_THREADS + phase.tracer
            yield _named("thread_name", tid, name=phase.track)
            yield _named("thread_sort_index", tid, sort_index=-1)
        event = {"ph": "X", "cat": "user_annotation", "name": phase.name, "pid": PID}
        event |= {"tid": threads_used[phase.tracer], "ts": phase.start}
        yield event | {"dur": phase.end - phase.start, "args": {}}


def gap_events(drawing: Drawing) -> Iterator[Event]:
    """Yield losses, on threads of their own after the others, because they may overlap."""
    for tid, gap in enumerate(drawing.gaps, start=len(drawing.tracks) + 1):
        yield _named("thread_name", tid, name="losses")
        event = {"ph": "X", "cat": "loss", "name": gap.name, "pid": PID, "tid": tid}
        yield event | {"ts": gap.start, "dur": gap.end - gap.start, "args": {}}


def instant_events(drawing: Drawing) -> Iterator[Event]:
    """Yield marks as instants, and when tasks and interrupts had the core, on threads of theirs."""
    for mark in drawing.marks:
        event = {"ph": "i", "cat": "user_annotation", "name": mark.name, "pid": PID, "s": "p"}
        yield event | {"tid": 1, "ts": mark.start, "args": {}}
    names = dict.fromkeys(span.name for span in drawing.contexts)
    threads_used = {name: tid for tid, name in enumerate(names, start=_CONTEXT_THREADS)}
    for name, tid in threads_used.items():
        yield _named("thread_name", tid, name=name)
        yield _named("thread_sort_index", tid, sort_index=tid)
    for span in drawing.contexts:
        event = {"ph": "X", "cat": "context", "name": span.name, "pid": PID}
        event |= {"tid": threads_used[span.name], "ts": span.start}
        yield event | {"dur": span.end - span.start, "args": {}}


def _named(what: str, tid: int, **arguments: str | int) -> Event:
    return {"ph": "M", "name": what, "pid": PID, "tid": tid, "ts": 0, "args": arguments}


def write_kineto(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on data of the trace that it lacks.

    Raises:
        UsageError: The rate of the tracer's clock is unknown.
    """
    shown = request.flavour == WITH_WRAPPERS
    drawing = draw(trace, request.method, request.energy, request.symbols, wrappers=shown)
    head = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": 0,
        "traceName": "etdump-harness",
        "otherData": {name: text for name, text in request.identity.texts().items() if text},
    }
    lines = ",\n".join(map(_line, _events(drawing, request.identity)))
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + lines + "\n]}\n"
    return Exported(text.encode(), drawing.notes)


KINETO: Final = ExportFormat(
    "Chrome's JSON as the PyTorch profiler writes it.", write_kineto, WRAPPER_FLAVOURS
)


def _events(drawing: Drawing, identity: RunIdentity) -> Iterator[Event]:
    yield from threads(drawing.tracks, identity)
    yield from phase_events(drawing)
    for number in range(len(drawing)):
        event = slice_event(drawing, number, _category(drawing, number))
        yield event | {"name": drawing.titles[number].text}
    yield from flow_events(drawing)
    yield from counter_events(drawing)
    yield from gap_events(drawing)
    yield from instant_events(drawing)


def _category(drawing: Drawing, number: int) -> str:
    """Return the category of a slice: operator for scopes of an instruction, else annotation."""
    row = drawing.row[number]
    if drawing.trace.kind[row] == Kind.DEBUG:
        return "user_annotation"
    return "user_annotation" if drawing.trace.chain[row] == -1 else "cpu_op"


def _line(event: Event) -> str:
    """Return the JSON of an event; converts nanoseconds to microseconds without floats."""
    times = "".join(
        f', "{key}": {_microseconds(event[key])}' for key in ("ts", "dur") if key in event
    )
    rest = {key: value for key, value in event.items() if key not in ("ts", "dur")}
    return json.dumps(rest)[:-1] + times + "}"


def _microseconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


_TYPES: Final = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    11: "bool",
    15: "c10::BFloat16",
}
"""PyTorch's names of element types by scalar type; others keep their own names."""

_SCALARS: Final = ("Int", "Double", "Bool")
_CPU: Final = "cpu"


@dataclass(slots=True)
class Operands:
    """Four lists of equal length, nested for operands that are lists."""

    values: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    strides: list[Any] = field(default_factory=list)

    def add(self, value: Any, shape: Any, type_: str, stride: Any) -> None:
        """Append one operand."""
        self.values.append(value)
        self.shapes.append(shape)
        self.types.append(type_)
        self.strides.append(stride)


class TensorNumbers:
    """Gives tensors and storages numbers, counted on from those of the nodes.

    A tensor is a value of the method; a storage is a stay in planned memory (``planned_ids``), or a
    place of its own.
    """

    def __init__(self, method: Method | None, first: int) -> None:
        self._ids = planned_ids(method) if method else {}
        self._next = first
        self._numbers: dict[tuple[str, int], int] = {}

    def operands(self, arguments: Iterable[Argument]) -> Operands:
        """Return the operands of an instruction's inputs or outputs."""
        found = Operands()
        for argument in arguments:
            sizes, strides = argument.sizes, argument.strides
            found.add(*self._operand(argument.number, argument.value, sizes, strides))
        return found

    def _operand(
        self,
        number: int,
        value: Value,
        sizes: tuple[int, ...] | None,
        strides: tuple[int, ...] | None,
    ) -> tuple[Any, Any, str, Any]:
        match value:
            case Tensor():
                sizes = value.sizes if sizes is None else sizes
                shape, stride = list(sizes), list(value.strides if strides is None else strides)
                return self._tuple(number, value, sizes), shape, _tensor_type(value), stride
            case ValueList():
                numbers = value.numbers or (-1,) * len(value.items)
                items = [
                    self._operand(item_number, item, None, None)
                    for item_number, item in zip(numbers, value.items, strict=True)
                ]
                types = ",".join(type_ for _, _, type_, _ in items)
                return (
                    [value for value, *_ in items],
                    [shape for _, shape, *_ in items],
                    f"GenericList[{types}]",
                    [stride for *_, stride in items],
                )
            case None:
                return "<None>", [], "None", []
            case bool():
                return value, [], "Bool", []
            case int():
                return value, [], "Int", []
            case float():
                return (value if math.isfinite(value) else str(value)), [], "Double", []
            case str():
                return value, [], "String", []

    def _tuple(self, number: int, tensor: Tensor, sizes: tuple[int, ...]) -> list[int | str]:
        stay = ("stay", self._ids[number].storage) if number in self._ids else ("own", number)
        elements = math.prod(sizes)
        size = np.dtype(STORED_AS.get(tensor.scalar_type, np.uint8)).itemsize
        tensor_id = self._number(("tensor", number))
        return [tensor_id, self._number(stay), 0, elements, size, _CPU]

    def _number(self, key: tuple[str, int]) -> int:
        if key not in self._numbers:
            self._numbers[key] = self._next
            self._next += 1
        return self._numbers[key]


def _tensor_type(tensor: Tensor) -> str:
    return f"Tensor({_TYPES.get(tensor.scalar_type, type_name(tensor.scalar_type))})"


def profiler_inputs(operands: Operands) -> dict[str, list[Any]]:
    """Return operands as in PyTorch profiler events: dimensions, types, concrete values."""
    found: dict[str, list[Any]] = {
        key: [] for key in ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")
    }
    for value, shape, type_, stride in zip(
        operands.values, operands.shapes, operands.types, operands.strides, strict=True
    ):
        tensors = "Tensor(" in type_
        if type_.startswith("GenericList"):
            name = "TensorList" if tensors else "ScalarList"
        else:
            name = "Scalar" if type_ in _SCALARS else ""
            name = type_[len("Tensor(") : -1] if tensors else name
        found["Concrete Inputs"].append(_concrete(value) if name.startswith("Scalar") else "")
        found["Input type"].append(name)
        found["Input Strides"].append(stride if tensors else [])
        found["Input Dims"].append(shape if tensors else [])
    return found


def _concrete(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_concrete, value))}]"
    text = str(value)
    return text[:-1] if isinstance(value, float) and text.endswith(".0") else text


@dataclass(frozen=True, slots=True)
class TensorReference:
    """An access to an address: an operator's argument, an allocation or a free.

    Attributes:
        address: Address and device of the storage, or any other key unique to its location.
        tensor: Address or number of the operator's tensor; None for an allocation or a free.
        freed: Whether the storage ends here.
    """

    address: Hashable
    tensor: Hashable | None = None
    freed: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of a storage and its tensor.

    Attributes:
        storage: Number of the storage, from 1.
        tensor: Number of the tensor, from 0; None if no operator used a tensor in this storage.
    """

    storage: int
    tensor: int | None


def unique_ids(references: Sequence[TensorReference]) -> list[Ids]:
    """Return the ids of storages and tensors.

    Args:
        references: Arguments at the start of operators, and allocations, in order of time.

    Returns:
        Ids per reference. Tensors are numbered in the order of their first storage.
    """
    storages = _storages(references)
    first: dict[Hashable, int] = {}  # storage in which a tensor was seen first
    pairs = set()
    for reference, storage in zip(references, storages, strict=True):
        if reference.tensor is not None:
            earlier = first.setdefault(reference.tensor, storage)
            pairs.add((min(earlier, storage), max(earlier, storage)))
    tensors: dict[int, int] = {}
    count = 0
    for lower, higher in sorted(pairs):
        if lower not in tensors:
            tensors[lower] = count
            count += 1
        tensors.setdefault(higher, tensors[lower])
    return [Ids(storage, tensors.get(storage)) for storage in storages]


def _storages(references: Sequence[TensorReference]) -> list[int]:
    """Return the storage number of each reference: a new one per address after each free."""
    current: dict[Hashable, int] = {}
    count = 0
    found = []
    for reference in references:
        if reference.address not in current:
            count += 1
            current[reference.address] = count
        found.append(current[reference.address])
        if reference.freed:
            del current[reference.address]
    return found


def planned_ids(method: Method) -> dict[int, Ids]:
    """Return the ids of the tensors of a method, by value number.

    An address in planned memory is a pool and an offset; it is freed at the end of the last
    lifetime there.
    """
    alive = lifetimes(method)
    moments = []
    for number, (first, last) in alive.items():
        moments += [(first, 0, number), (last, 1, number)]
    there: dict[Hashable, int] = {}
    references, numbers = [], []
    for _, ending, number in sorted(moments):
        address = _address(method, number)
        there[address] = there.get(address, 0) + (-1 if ending else 1)
        references.append(
            TensorReference(address, number, freed=bool(ending) and not there[address])
        )
        numbers.append(number)
    return dict(zip(numbers, unique_ids(references), strict=True))


def _address(method: Method, number: int) -> Hashable:
    value = method.values[number]
    if isinstance(value, Tensor) and value.pool > 0 and value.offset >= 0:
        return value.pool, value.offset
    return number
