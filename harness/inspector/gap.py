"""Compares values logged by a device with values computed by the exported program.

Debug handles connect them: each operator of the edge dialect has one, and an event has the handles
of all operators fused into it. A logged value is compared with the captured value of the last
operator among the handles of its event.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analyze.values import (
    LoggedTrace,
    ReferenceValues,
    ValueComparison,
    compare_with_reference,
    values_by_handle,
)
from harness.decode.etrecord import as_tuple
from harness.errors import UsageError
from harness.extras import require
from harness.inspector.comparators import (
    COMPARATORS,
    DebugHandle,
    IntermediateOutputMapping,
    Names,
    NumericalComparatorBase,
)
from harness.records.trace import DELEGATE_CALL, OPERATOR_CALL

if TYPE_CHECKING:
    from harness.inspector.event import Event
    from harness.inspector.inspector import Inspector
    from harness.inspector.record import InspectorRecord

_HANDLE = "debug_handle"
_UNSET = 0
_EXPORTED, _EDGE = "exported_program", "edge_dialect_exported_program"


@dataclass(frozen=True, slots=True)
class _Logged:
    """The values logged for an event's operators."""

    instruction: int
    values: list[Any]
    outputs: int


@dataclass(frozen=True, slots=True)
class _Captured:
    """What a program computed.

    Attributes:
        values: The value of each debug handle's last node.
        nodes: All nodes of each debug handle.
        quantized: The value of every node that quantizes.
        outputs: The outputs of the program.
    """

    values: dict[DebugHandle, Any]
    nodes: dict[DebugHandle, list[Any]]
    quantized: dict[Any, Any]
    outputs: Any


def numeric_gap(
    inspector: Inspector,
    record: Any,
    distance: str | NumericalComparatorBase,
    reference_graph: str | None,
    *,
    validate: bool,
) -> Any:
    """Return a pandas DataFrame with pairs of values and their distances.

    Raises:
        ValueError: The distance or the graph is unknown, or the record has no representative
            inputs.
    """
    comparator = _comparator(distance, inspector)
    program = _reference(record, reference_graph, validate, inspector.method)
    if not record._representative_inputs:
        raise ValueError("the ETRecord has no representative inputs to compute values from")
    inputs = record._representative_inputs
    captured = _capture(program, inputs if _is_sequence(inputs) else [inputs])
    computed, nodes = captured.values, captured.nodes
    names = {handle: [node.name for node in found] for handle, found in nodes.items()}
    logged, runtime_names = _runtime_values(inspector)
    table = comparator.compare(_pair(computed, logged), names, runtime_names)
    if len(table):
        traces = {
            node.name: node.meta.get("stack_trace") for group in nodes.values() for node in group
        }
        table["stacktraces"] = [
            {name: traces.get(name) for name in found} for found in table["aot_ops"]
        ]
    return table


def _comparator(
    distance: str | NumericalComparatorBase, inspector: Inspector
) -> NumericalComparatorBase:
    if isinstance(distance, str):
        name = distance.strip().upper()
        if name not in COMPARATORS:
            raise ValueError(f"unknown distance {distance!r}; there are {', '.join(COMPARATORS)}")
        return COMPARATORS[name](inspector)
    if getattr(distance, "inspector", None) is None:
        distance.inspector = inspector
    return distance


def _reference(record: Any, name: str | None, validate: bool, method: str) -> Any:
    """Return the program that computes the reference values."""
    edge = record.edge_dialect_program
    edge = edge[method] if isinstance(edge, dict) else edge
    if name in (None, _EXPORTED):
        exported = record.exported_program
        exported = exported.get(method) if isinstance(exported, dict) else exported
        if exported is not None and _propagate(exported, record.export_graph_id, edge, validate):
            return exported
        if name == _EXPORTED:
            raise ValueError(
                "the exported program is not in the ETRecord, or does not have all operators of "
                "the edge dialect: disable the validation to compare the others"
            )
        warnings.warn("values are computed with the edge dialect program", stacklevel=4)
        return edge
    if name == _EDGE:
        return edge
    graphs = record.graph_map or {}
    for key in (name, f"{name}/{method}"):
        if key in graphs:
            return graphs[key]
    raise ValueError(f"no graph {name!r}: there are {', '.join([_EXPORTED, _EDGE, *graphs])}")


def _operators(program: Any) -> Iterator[Any]:
    return (
        node
        for node in program.graph_module.graph.nodes
        if node.op not in ("placeholder", "output")
    )


def _origins(node: Any) -> Iterator[str]:
    """Yield the names of a node's source nodes in earlier graphs, with the graphs' ids."""
    sources = node.meta.get("from_node")
    while sources:
        yield f"{sources[-1].name}.{sources[-1].graph_id}"
        sources = sources[-1].from_node


def _propagate(exported: Any, graph_id: int, edge: Any, validate: bool) -> bool:
    """Copy the debug handles of edge dialect nodes to their source nodes in the exported program.

    Returns False, without a change, if an operator of the edge dialect has no source node.
    """
    handles = {origin: node.meta[_HANDLE] for node in _operators(edge) for origin in _origins(node)}
    found = {}
    for node in _operators(exported):
        names = (f"{node.name}.{graph_id}", *_origins(node))
        found[node] = next((handles[name] for name in names if name in handles), _UNSET)
    if validate and not {node.meta[_HANDLE] for node in _operators(edge)} <= {*found.values()}:
        return False
    for node, handle in found.items():
        node.meta[_HANDLE] = handle
    return True


def compare_with_record(
    logged: LoggedTrace,
    record: InspectorRecord,
    method: str,
    inputs: Sequence[np.ndarray],
    test_set: int | None = None,
) -> ValueComparison:
    """Compare logged values with those that the program of an ETRecord computes.

    They are computed by the exported program, or by the edge dialect program if the exported one
    is not in the record or lost operators on the way. Each operator is computed from the values
    that the run logged for the operators before it, so that differences of rounding do not add up
    and a wrong operator does not make all later ones differ. The outputs are compared with those
    that the record stores for the test set; without these, with those of the program.

    Args:
        logged: The trace, with symbols of the record.
        record: The ETRecord.
        method: The method that ran.
        inputs: Its inputs, in order.
        test_set: Number of the test set that ran; None for inputs of another origin.

    Raises:
        UsageError: ExecuTorch or PyTorch is not installed, or the record has no such method.
        NotComparableError: The trace has no values, or no value has a counterpart.
        FormatError: Values are outside of the debug buffer.
    """
    (torch,) = require("oracle", "values of an ETRecord's program", "torch")
    if method not in record.symbols.edge:
        raise UsageError(
            f"{record.symbols.path} has no edge dialect graph of method {method!r}",
            hint="generate the ETRecord with generate_etrecord=True, or to_edge's program",
        )
    stored = record.reference_outputs(method) if test_set is not None else None
    program = _reference(record.program(), None, True, method)
    tensors = [torch.from_numpy(array) for array in inputs]
    captured = _capture(program, tensors, flat=True, device=values_by_handle(logged))
    outputs = captured.outputs
    if stored is not None and test_set is not None and test_set < len(stored):
        outputs = stored[test_set]
    single = {handle[0]: handle for handle in captured.values if len(handle) == 1}
    ends = {number: _fused_quantize(captured.nodes[handle]) for number, handle in single.items()}
    reference = ReferenceValues(
        {number: _arrays(captured.values[handle]) for number, handle in single.items()},
        _arrays(outputs),
        {
            number: _arrays(captured.quantized[node])
            for number, node in ends.items()
            if node in captured.quantized
        },
    )
    return compare_with_reference(logged, reference)


def _arrays(value: Any) -> list[np.ndarray]:
    """Return a tensor, or several, as arrays; none if there are other values among them."""
    (torch,) = require("oracle", "values of an ETRecord's program", "torch")
    items = value if _is_sequence(value) else [value]
    if not all(isinstance(item, torch.Tensor) for item in items):
        return []
    tensors = [item.detach().cpu() for item in items]
    # NumPy has no bfloat16, and float32 holds its values exactly.
    wide = [item.float() if item.dtype == torch.bfloat16 else item for item in tensors]
    return [np.array(item.numpy()) for item in wide]


def _is_sequence(value: Any) -> bool:
    return isinstance(value, tuple | list)


_DeviceValues = Mapping[int, Sequence[Sequence[np.ndarray]]]
"""Logged values by debug handle: those of each instruction with this handle."""


def _capture(
    program: Any, inputs: Sequence[Any], *, flat: bool = False, device: _DeviceValues | None = None
) -> _Captured:
    """Execute a program, and capture what its nodes compute.

    Args:
        program: The exported program.
        inputs: Its arguments.
        flat: The inputs are those of the method instead, nested arguments in order.
        device: Values that replace those of nodes once these are captured.
    """
    torch, fx = require("oracle", "a numeric gap", "torch", "torch.fx")
    values: dict[DebugHandle, Any] = {}
    nodes: dict[DebugHandle, list[Any]] = {}
    quantized: dict[Any, Any] = {}

    def copied(value: Any) -> Any:
        if _is_sequence(value):
            return [copied(item) for item in value]
        return value.detach().clone() if isinstance(value, torch.Tensor) else value

    class Capturer(fx.Interpreter):  # type: ignore[misc, name-defined]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if _is_quantize(node):
                quantized[node] = copied(result)
            handle = node.meta.get(_HANDLE)
            if handle is not None and node.op == "call_function" and "getitem" not in node.name:
                values[as_tuple(handle)] = copied(result)
                nodes.setdefault(as_tuple(handle), []).append(node)
            return _replaced(result, logged.get(node, ()))

    module = program.module()
    logged = _logged_of_nodes(module, device or {})
    outputs = Capturer(module).run(*inputs, enable_io_processing=not flat)
    return _Captured(values, nodes, quantized, outputs)


def _logged_of_nodes(module: Any, device: _DeviceValues) -> dict[Any, list[Sequence[np.ndarray]]]:
    """Return what the device may have logged for the last node of a handle, or its quantize."""
    groups: dict[int, list[Any]] = {}
    for node in module.graph.nodes:
        handle = node.meta.get(_HANDLE)
        if node.op == "call_function" and "getitem" not in node.name and isinstance(handle, int):
            groups.setdefault(handle, []).append(node)
    found: dict[Any, list[Sequence[np.ndarray]]] = {}
    for number, values in device.items():
        if group := groups.get(number):
            for node in {group[-1], _fused_quantize(group)} - {None}:
                found.setdefault(node, []).extend(values)
    return found


def _replaced(result: Any, candidates: Sequence[Sequence[np.ndarray]]) -> Any:
    """Return the last of the logged values that has the kind and shape of a node's result."""
    if not candidates:
        return result
    (torch,) = require("oracle", "values of an ETRecord's program", "torch")
    items = result if _is_sequence(result) else [result]
    if not all(isinstance(item, torch.Tensor) for item in items):
        return result
    kinds = [(tuple(item.shape), item.dtype.is_floating_point) for item in items]
    for arrays in reversed(candidates):
        if kinds == [(array.shape, array.dtype.kind == "f") for array in arrays]:
            pairs = zip(arrays, items, strict=True)
            tensors = tuple(torch.from_numpy(array).to(item.dtype) for array, item in pairs)
            return tensors if _is_sequence(result) else tensors[0]
    return result


def _is_quantize(node: Any) -> bool:
    """Whether a node quantizes a tensor; ``dequantize`` has another name in every dialect."""
    return node.op == "call_function" and "::quantize_per_" in getattr(node.target, "name", str)()


def _fused_quantize(group: Sequence[Any]) -> Any:
    """Return the node that quantizes what the nodes of a debug handle compute; None without one.

    A quantized operator of the device does the work of several nodes: the float operator, an
    activation, and the quantization. Its debug handle is that of the float operator.
    """
    for node in reversed(group):
        if _is_quantize(node):
            return node
    node = group[-1]
    while len(node.users) == 1:
        (node,) = node.users
        if _is_quantize(node):
            return node
    return None


def _runtime_values(inspector: Inspector) -> tuple[dict[DebugHandle, _Logged], Names]:
    """Return the logged values by debug handles; overlapping handles are joined."""
    events = [event for block in inspector.event_blocks for event in block.events]
    inside: dict[str | None, set[int]] = {}
    for event in events:
        if event.is_delegated_op and event.op_types and event.debug_data:
            of_backend = inside.setdefault(event.delegate_backend_name, set())
            of_backend.update(as_tuple(event.debug_handles or ()))
    found: dict[DebugHandle, _Logged] = {}
    names: Names = {}
    for event in events:
        if event.name == OPERATOR_CALL or not event.op_types:
            continue
        handle = as_tuple(event.debug_handles or ())
        # A call whose inner operators were logged says nothing beyond these.
        covered = inside.get(event.delegate_backend_name, set())
        if event.name == DELEGATE_CALL and not covered.isdisjoint(handle):
            continue
        if handle not in found or _instruction(event) > found[handle].instruction:
            found[handle] = _Logged(_instruction(event), event.debug_data, event.num_outputs)
            names[handle] = [event.name]
    return _merged(found), names


def _instruction(event: Event) -> int:
    return -1 if event._instruction_id is None else event._instruction_id


def _merged(found: dict[DebugHandle, _Logged]) -> dict[DebugHandle, _Logged]:
    """Join overlapping handles in the order of instructions; the last value is kept."""
    merged: dict[DebugHandle, _Logged] = {}
    for handle, logged in found.items():
        joined, last = handle, logged
        for other in [key for key in merged if not {*key}.isdisjoint(handle)]:
            existing = merged.pop(other)
            if existing.instruction < logged.instruction:
                joined = _behind(other, joined)
            else:
                joined, last = _behind(joined, other), existing
        merged[joined] = last
    return merged


def _behind(first: DebugHandle, last: DebugHandle) -> DebugHandle:
    """Return the union; common handles keep their position in ``last``."""
    return tuple(dict.fromkeys([*(n for n in first if n not in last), *last]))


def _pair(
    computed: dict[DebugHandle, Any], logged: dict[DebugHandle, _Logged]
) -> IntermediateOutputMapping:
    """Pair computed values with the logged values of the same operators."""
    pairs: IntermediateOutputMapping = {}
    single = {handle[0]: value for handle, value in computed.items() if len(handle) == 1}
    for handle, found in logged.items():
        if not any(number in single for number in handle):
            continue
        for index in range(1, found.outputs + 1):
            if index > len(handle) or handle[-index] not in single:
                continue
            value = single[handle[-index]]
            pairs[handle, _hashable(value)] = (handle, _of_logged(value, found, index))
    return pairs


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _of_logged(value: Any, found: _Logged, index: int) -> Any:
    """Return the logged value that matches the computed one; operators may log several."""
    if not found.values:
        return None
    if isinstance(value, list):
        return tuple(found.values)
    if found.outputs == 1 and len(found.values) > 1 and hasattr(value, "shape"):
        alike = [item for item in found.values if _shape(item) == tuple(value.shape)]
        same = [item for item in alike if str(getattr(item, "dtype", "")) == str(value.dtype)]
        for fitting in (alike, same):
            if len(fitting) == 1:
                return fitting[0]
    return found.values[-index] if index <= len(found.values) else None


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if hasattr(value, "shape") else None
