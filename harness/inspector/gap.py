"""Compares values logged by a device with values computed by the exported program.

Debug handles connect them: each operator of the edge dialect has one, and an event has the handles
of all operators fused into it. A logged value is compared with the captured value of the last
operator among the handles of its event.
"""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import ZipFile

import numpy as np

from harness.analyze.blocks import executed_methods
from harness.decode.program import Call, Instruction, Method, Program
from harness.errors import NotComparableError, UsageError
from harness.inspector.comparators import (
    COMPARATORS,
    DebugHandle,
    IntermediateOutputMapping,
    Names,
    NumericalComparatorBase,
)
from harness.inspector.etrecord import (
    Delegate,
    ETRecord,
    MethodRecord,
    as_tuple,
    read_etrecord,
    read_graph,
)
from harness.inspector.values import (
    TOLERANCES,
    LoggedTensor,
    LoggedTrace,
    TensorKey,
    ValueComparison,
    collect_tensors,
    compare_pairs,
)
from harness.plugins import require
from harness.records.symbols import EtrecordNode, Handles, Module
from harness.records.trace import DELEGATE_CALL, Trace, is_wrapper, scalar_type_of, type_name

if TYPE_CHECKING:
    from harness.inspector.event import Event
    from harness.inspector.inspector import Inspector

_HANDLE = "debug_handle"
_UNSET = 0
_EXPORTED, _EDGE = "exported_program", "edge_dialect_exported_program"


@dataclass(frozen=True, slots=True)
class _Logged:
    """The values logged for an event's operators."""

    instruction: int
    values: list[Any]
    outputs: int


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
    computed, nodes, _, _ = _capture(program, inputs if _is_sequence(inputs) else [inputs])
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
    device = values_by_handle(logged)
    values, nodes, quantized, outputs = _capture(program, tensors, flat=True, device=device)
    if stored is not None and test_set is not None and test_set < len(stored):
        outputs = stored[test_set]
    single = {handle[0]: handle for handle in values if len(handle) == 1}
    ends = {number: _fused_quantize(nodes[handle]) for number, handle in single.items()}
    reference = ReferenceValues(
        {number: _arrays(values[handle]) for number, handle in single.items()},
        _arrays(outputs),
        {number: _arrays(quantized[node]) for number, node in ends.items() if node in quantized},
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
) -> tuple[dict[DebugHandle, Any], dict[DebugHandle, list[Any]], dict[Any, Any], Any]:
    """Execute a program, and capture what its nodes compute.

    Args:
        program: The exported program.
        inputs: Its arguments.
        flat: The inputs are those of the method instead, nested arguments in order.
        device: Values that replace those of nodes once these are captured.

    Returns:
        The value of each debug handle's last node; all nodes of each debug handle; the value of
        every node that quantizes; and the outputs of the program.
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
    return values, nodes, quantized, outputs


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
        if is_wrapper(event.name) or not event.op_types:
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


EDGE_GRAPH = "edge_dialect_graph_module"
"""ExecuTorch's name of the graph with the debug handles."""

_MOST_INSTRUCTIONS: Final = 1 << 16
"""Instructions beyond those of the record that an event may name; a damaged one may name any."""

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

    def executed(self, trace: Trace, name: str | None) -> tuple[Method | None, ...]:
        """Return the method of each block of a trace; None if its events do not show it.

        The methods have what the record has of their instructions: which call a delegate, and the
        operators without overload. If an execution contradicts all of them, as a pass may have
        replaced an operator behind the edge dialect, all blocks are of the method called ``name``.

        Raises:
            UsageError: There is no such method; or ``name`` is None, and the events do not show
                which of several methods ran.
        """
        longest = min(int(trace.instruction.max(initial=-1)) + 1, _MOST_INSTRUCTIONS)
        methods = tuple(self._method(method, longest) for method in self.symbols.methods)
        if name is None and len(methods) > 1:
            with suppress(NotComparableError):
                return executed_methods(trace, Program(methods))
        chosen = self.symbols.method(name)
        if len(methods) > 1:
            with suppress(NotComparableError):
                return executed_methods(trace, Program(methods), chosen)
        [method] = (method for method in methods if method.name == chosen)
        return (method,) * len(trace.blocks)

    def _method(self, name: str, length: int) -> Method:
        """Return a method of ``length`` instructions or more; without a handle they are unknown."""
        recorded = self.symbols.methods[name]
        operators = {node.debug_handle: node.op for node in self.symbols.edge.get(name, ())}
        steps = []
        for number in range(max(length, *(handle + 1 for handle in recorded.handles), 0)):
            operator = operators.get(recorded.handles.get(number), "")  # type: ignore[arg-type]
            namespace, _, rest = operator.partition(".")
            kernel = f"{namespace}::{rest.partition('.')[0]}" if rest else ""
            is_delegate = number in recorded.delegates
            steps.append(Instruction(Call.DELEGATE if is_delegate else Call.KERNEL, kernel, ()))
        return Method(name, (), (), (), (tuple(steps),), (), ())

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


QUANTUM: Final = 1.0
"""How far a quantized value may be from one that a reference rounds from floating point."""


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """Values that another program computed from the same inputs.

    Attributes:
        operators: The outputs of the operator with a debug handle, by handle.
        outputs: The outputs of the method; empty if they are unknown.
        quantized: The same as ``operators``, once activations and quantization that follow have
            been applied: what a fused quantized operator computes.
    """

    operators: Mapping[int, Sequence[np.ndarray]]
    outputs: Sequence[np.ndarray] = ()
    quantized: Mapping[int, Sequence[np.ndarray]] = field(default_factory=dict)


def compare_with_reference(logged: LoggedTrace, reference: ReferenceValues) -> ValueComparison:
    """Compare the values that a trace logged with those of a reference.

    Tensors without a counterpart, or of another shape or kind of number, are counted.

    Args:
        logged: The trace, with symbols.
        reference: The reference.

    Raises:
        NotComparableError: The trace has no values, or no value has a counterpart.
        FormatError: Values are outside of the debug buffer.
    """
    tensors = collect_tensors(logged, by_handles=False)
    if not tensors:
        raise NotComparableError(
            "the trace has no logged values", hint="run it with --values intermediate"
        )
    counts: Counter[Hashable] = Counter(key[:2] for key in tensors)

    def counterpart(key: TensorKey, tensor: LoggedTensor) -> LoggedTensor | None:
        return _counterpart(logged, tensor, counts[key[:2]], reference)

    compared = compare_pairs(logged, tensors, counterpart)
    if not compared.gaps:
        raise NotComparableError(
            "no logged value has a counterpart in the reference",
            hint="give the ETRecord of the export that ran",
        )
    return compared


def values_by_handle(logged: LoggedTrace) -> dict[int, list[list[np.ndarray]]]:
    """Return the values of the first execution by the last debug handle of their instruction.

    Several instructions can have the same last handle; each has a list of its own. Instructions
    of which bytes were lost are left out.
    """
    instructions: dict[Hashable, list[LoggedTensor]] = {}
    for (execution, place, _), tensor in collect_tensors(logged, by_handles=False).items():
        if execution == 0:
            instructions.setdefault(place, []).append(tensor)
    found: dict[int, list[list[np.ndarray]]] = {}
    for tensors in instructions.values():
        symbols = logged.symbols[tensors[0].row] if logged.symbols is not None else None
        arrays = [tensor.array for tensor in tensors if tensor.array is not None]
        if symbols is not None and symbols.handles is not None and len(arrays) == len(tensors):
            found.setdefault(as_tuple(symbols.handles)[-1], []).append(arrays)
    return found


def _counterpart(
    logged: LoggedTrace, mine: LoggedTensor, count: int, reference: ReferenceValues
) -> LoggedTensor | None:
    """Return the reference of one of the ``count`` tensors that an instruction logged."""
    symbols = logged.symbols[mine.row] if logged.symbols is not None else None
    handles = as_tuple(symbols.handles) if symbols and symbols.handles is not None else ()
    if logged.trace.chain[mine.row] < 0:
        outputs = reference.outputs
        found = [(outputs[mine.position], 0.0)] if len(outputs) == count else []
    else:
        found = [
            (array, slack)
            for values, slack in ((reference.operators, 0.0), (reference.quantized, QUANTUM))
            if (array := _of_handles(values, handles, mine.position, count)) is not None
        ]
    for array, slack in found:
        if _alike(mine, array):
            tensor = replace(mine.tensor, scalar_type=scalar_type_of(array.dtype))
            return LoggedTensor(mine.row, mine.position, tensor, array, slack)
    return None


def _of_handles(
    values: Mapping[int, Sequence[np.ndarray]], handles: Sequence[int], position: int, count: int
) -> np.ndarray | None:
    """Return the value at a position of an instruction with these debug handles."""
    found = values.get(handles[-1], ()) if handles else ()
    if len(found) == count:
        return found[position]
    # A delegate returns the values of several operators, those of the last handles.
    single = values.get(handles[position - count], ()) if len(handles) >= count else ()
    return single[0] if len(single) == 1 else None


def _alike(mine: LoggedTensor, reference: np.ndarray) -> bool:
    """Whether two tensors have the same shape and are both floating-point, or both are not."""
    is_float = type_name(mine.tensor.scalar_type) in TOLERANCES
    return mine.tensor.sizes == reference.shape and is_float == (reference.dtype.kind == "f")
