"""Logged values: as arrays, and how far they are from those of another trace or of a reference.

Values of two traces are paired by execution, instruction and their order within it; with ETRecords
by the debug handles of the instruction, which another export of the same model keeps. Values of a
reference are those of the operator with an instruction's last debug handle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.symbols import EventSymbols
from harness.decode.etrecord import as_tuple
from harness.errors import FormatError, NotComparableError
from harness.records.scalar_types import (
    BFLOAT16,
    STORED_AS,
    little_endian,
    scalar_type_of,
    type_name,
)
from harness.records.trace import DELEGATE_CALL, OPERATOR_CALL, Kind, Trace
from harness.records.values import TensorValue

Floats = npt.NDArray[np.float64]

TOLERANCES: Final = {"float64": 1e-12, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference of two values of a type, relative to the tensor's largest absolute value.

Types that are not listed, such as int8, have to be equal.
"""


QUANTUM: Final = 1.0
"""How far a quantized value may be from one that a reference rounds from floating point."""


def tensor_array(tensor: TensorValue, debug_buffer: bytes) -> np.ndarray:
    """Return the elements of a logged tensor in its logical shape, for any strides.

    Conversion is exact. Bfloat16 becomes float32. Types that NumPy does not have (quantized types,
    8-bit floats, bit types) are returned as the integers they are stored as.

    Args:
        tensor: From ``Trace.debug_values``.
        debug_buffer: The whole debug buffer of the trace.

    Raises:
        FormatError: The target dropped the tensor's bytes, they are outside the buffer, or the
            scalar type is unknown or the shape impossible.
    """
    if tensor.lost:
        raise FormatError(
            "the target's debug buffer was full: the bytes of this tensor were dropped",
            field="debug buffer",
            hint="log fewer values or fewer runs, or give the board a larger ETD_DEBUG_CAPACITY",
        )
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="scalar type")
    if tensor.defect:
        raise FormatError(f"invalid tensor: {tensor.defect}", field="sizes")
    dtype = little_endian(STORED_AS[tensor.scalar_type])
    if 0 in tensor.sizes:
        stored = np.empty(tensor.sizes, dtype)
    else:
        reach = [(n - 1) * step for n, step in zip(tensor.sizes, tensor.strides, strict=True)]
        count = 1 + sum(reach)
        end = tensor.offset + count * dtype.itemsize
        if tensor.offset < 0 or end > len(debug_buffer):
            raise FormatError(
                f"bytes {tensor.offset} to {end} are outside the debug buffer of "
                f"{len(debug_buffer)} bytes",
                offset=tensor.offset,
                field="debug buffer",
            )
        flat = np.frombuffer(debug_buffer, dtype, count, tensor.offset)
        # The stride of a single element may be any number.
        shape = zip(tensor.sizes, tensor.strides, strict=True)
        steps = [step * dtype.itemsize if n > 1 else 0 for n, step in shape]
        stored = np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps, writeable=False)
    if tensor.scalar_type == BFLOAT16:
        # Shifting an array without dimensions returns a scalar, which has no view().
        return np.asarray(stored.astype(np.uint32) << 16).view(np.float32)
    return stored.copy()


@dataclass(frozen=True, slots=True)
class ValueGap:
    """How far one logged tensor is from its counterpart, the worst of all executions.

    Distances are computed in float64.

    Attributes:
        chain: Chain of the instruction in the first trace, -1 for an output of the program.
        instruction: Its index in the chain.
        position: Number of the tensor among those of the instruction.
        operator: Event name of its kernel or delegate; "" if none was logged.
        handles: Debug handles of the instruction; empty without ETRecords.
        types: Scalar types in both traces.
        sizes: Elements per dimension.
        executions: Number of compared executions.
        max_abs: Largest absolute difference; NaN if a value that is not a number has none opposite.
        mean_abs: Mean absolute difference of the execution with the largest.
        cosine: Cosine similarity of that execution; 1 for two tensors of zeros.
        snr_db: Its signal-to-noise ratio in decibels, infinite for equal tensors.
        tolerance: Largest difference that the types allow.
    """

    chain: int
    instruction: int
    position: int
    operator: str
    handles: tuple[int, ...]
    types: tuple[str, str]
    sizes: tuple[int, ...]
    executions: int
    max_abs: float
    mean_abs: float
    cosine: float
    snr_db: float
    tolerance: float

    @property
    def diverges(self) -> bool:
        """Whether the difference exceeds the tolerance."""
        return not self.max_abs <= self.tolerance


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """The values of two traces, compared.

    Attributes:
        gaps: In the order of the first trace's instructions, the program's outputs last.
        unmatched: Tensors without a counterpart, or of another shape.
        lost: Tensors of either trace whose bytes were lost.
    """

    gaps: tuple[ValueGap, ...]
    unmatched: int
    lost: int

    @property
    def first_diverging(self) -> ValueGap | None:
        """The first gap beyond its tolerance, in the order of execution."""
        return next((gap for gap in self.gaps if gap.diverges), None)


@dataclass(frozen=True, slots=True)
class LoggedTrace:
    """A trace with the bytes of its values and, with an ETRecord, its symbols, shape (n,)."""

    trace: Trace
    debug_buffer: bytes
    symbols: Sequence[EventSymbols | None] | None = None


@dataclass(slots=True)
class _LoggedTensor:
    """A tensor of one execution, or None if its bytes were lost.

    ``slack`` is how far a counterpart may be from it beyond the tolerance of their types.
    """

    row: int
    position: int
    tensor: TensorValue
    array: np.ndarray | None
    slack: float = 0.0


_Key = tuple[int, Hashable, int]
"""Execution, instruction or debug handles, and position among the tensors of the instruction."""


@dataclass(slots=True)
class _LoggedTensors:
    values: dict[_Key, _LoggedTensor] = field(default_factory=dict)
    lost: int = 0


def compare_values(before: LoggedTrace, after: LoggedTrace) -> ValueComparison:
    """Compare the values that two traces logged.

    Raises:
        NotComparableError: A trace has no values, or no value has a counterpart.
        FormatError: Values are outside of the debug buffer.
    """
    by_handles = before.symbols is not None and after.symbols is not None
    sides = [_collect(logged, by_handles=by_handles) for logged in (before, after)]
    for side, which in zip(sides, ("first", "second"), strict=True):
        if not side.values:
            raise NotComparableError(
                f"the {which} trace has no logged values",
                hint="run both with --values intermediate",
            )
    pairs: dict[Hashable, list[tuple[_LoggedTensor, _LoggedTensor]]] = {}
    unmatched = sum(key not in sides[0].values for key in sides[1].values)
    for key, mine in sides[0].values.items():
        yours = sides[1].values.get(key)
        if yours is None or mine.tensor.sizes != yours.tensor.sizes:
            unmatched += 1
        elif mine.array is not None and yours.array is not None:
            pairs.setdefault(key[1:], []).append((mine, yours))
    if not pairs:
        raise NotComparableError(
            "no value of the first trace has a counterpart in the second",
            hint="compare runs of the same model, or give the ETRecord of each export",
        )
    lost = sum(side.lost for side in sides)
    return _compared(before, pairs.values(), unmatched, lost)


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
    side = _collect(logged, by_handles=False)
    if not side.values:
        raise NotComparableError(
            "the trace has no logged values", hint="run it with --values intermediate"
        )
    last: dict[Hashable, int] = {}
    for key, mine in side.values.items():
        last[key[:2]] = max(last.get(key[:2], 0), mine.position)
    pairs: dict[Hashable, list[tuple[_LoggedTensor, _LoggedTensor]]] = {}
    unmatched = 0
    for key, mine in side.values.items():
        count = last[key[:2]] + 1
        theirs = _counterpart(logged, mine, count, reference)
        if theirs is None:
            unmatched += 1
        elif mine.array is not None:
            pairs.setdefault(key[1:], []).append((mine, theirs))
    if not pairs:
        raise NotComparableError(
            "no logged value has a counterpart in the reference",
            hint="give the ETRecord of the export that ran",
        )
    return _compared(logged, pairs.values(), unmatched, side.lost)


def values_by_handle(logged: LoggedTrace) -> dict[int, list[list[np.ndarray]]]:
    """Return the values of the first execution by the last debug handle of their instruction.

    Several instructions can have the same last handle; each has a list of its own. Instructions
    of which bytes were lost are left out.
    """
    instructions: dict[Hashable, list[_LoggedTensor]] = {}
    for (execution, place, _), tensor in _collect(logged, by_handles=False).values.items():
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
    logged: LoggedTrace, mine: _LoggedTensor, count: int, reference: ReferenceValues
) -> _LoggedTensor | None:
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
            return _LoggedTensor(mine.row, mine.position, tensor, array, slack)
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


def _alike(mine: _LoggedTensor, reference: np.ndarray) -> bool:
    """Whether two tensors have the same shape and are both floating-point, or both are not."""
    is_float = type_name(mine.tensor.scalar_type) in TOLERANCES
    return mine.tensor.sizes == reference.shape and is_float == (reference.dtype.kind == "f")


def _compared(
    logged: LoggedTrace,
    pairs: Iterable[Sequence[tuple[_LoggedTensor, _LoggedTensor]]],
    unmatched: int,
    lost: int,
) -> ValueComparison:
    """Return the gaps of pairs in the order of execution."""
    gaps = [_worst(logged, found) for found in pairs]
    gaps.sort(key=lambda gap: (gap.chain < 0, gap.chain, gap.instruction, gap.position))
    return ValueComparison(tuple(gaps), unmatched, lost)


def _collect(logged: LoggedTrace, *, by_handles: bool) -> _LoggedTensors:
    """Return every logged tensor by execution, instruction or handles, and position."""
    side, trace = _LoggedTensors(), logged.trace
    for execution, rows in enumerate(_executions(trace)):
        seen: Counter[Hashable] = Counter()
        for row in rows:
            place: Hashable = (int(trace.chain[row]), int(trace.instruction[row]))
            if by_handles and logged.symbols is not None and trace.chain[row] >= 0:
                symbols = logged.symbols[row]
                place = symbols.handles if symbols is not None and symbols.handles else place
            for tensor in _tensors(trace, row):
                position = seen[place]
                seen[place] += 1
                array = None if tensor.lost else tensor_array(tensor, logged.debug_buffer)
                side.lost += array is None
                side.values[execution, place, position] = _LoggedTensor(
                    row, position, tensor, array
                )
    return side


def _executions(trace: Trace) -> Iterator[list[int]]:
    """Yield the rows with values of each block that has any."""
    logged = np.flatnonzero(trace.kind == Kind.DEBUG)
    for block in trace.blocks:
        first, end = np.searchsorted(logged, (block.first, block.first + block.count))
        if first < end:
            yield logged[first:end].tolist()


def _tensors(trace: Trace, row: int) -> Iterator[TensorValue]:
    value = trace.debug_values[trace.debug[row]].value
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, TensorValue):
            yield item


def _worst(logged: LoggedTrace, pairs: Sequence[tuple[_LoggedTensor, _LoggedTensor]]) -> ValueGap:
    measured = [(_distance(mine, yours), mine, yours) for mine, yours in pairs]
    found, mine, yours = max(measured, key=lambda each: np.nan_to_num(each[0].max_abs, nan=np.inf))
    trace, row = logged.trace, mine.row
    symbols = logged.symbols[row] if logged.symbols is not None else None
    return ValueGap(
        chain=int(trace.chain[row]),
        instruction=int(trace.instruction[row]),
        position=mine.position,
        operator=_operator(trace, row),
        handles=as_tuple(symbols.handles or ()) if symbols is not None else (),
        types=(type_name(mine.tensor.scalar_type), type_name(yours.tensor.scalar_type)),
        sizes=mine.tensor.sizes,
        executions=len(pairs),
        max_abs=found.max_abs,
        mean_abs=found.mean_abs,
        cosine=found.cosine,
        snr_db=found.snr_db,
        tolerance=found.tolerance,
    )


@dataclass(frozen=True, slots=True)
class _Distance:
    max_abs: float
    mean_abs: float
    cosine: float
    snr_db: float
    tolerance: float


def _distance(mine: _LoggedTensor, yours: _LoggedTensor) -> _Distance:
    assert mine.array is not None
    assert yours.array is not None
    a, b = (np.asarray(side.array, np.float64).ravel() for side in (mine, yours))
    types = [type_name(side.tensor.scalar_type) for side in (mine, yours)]
    relative = max(TOLERANCES.get(name, 0.0) for name in types)
    finite = np.isfinite(a)
    scale = float(np.abs(a[finite]).max(initial=0.0))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
    noise, signal = float(np.mean(np.square(difference))) if a.size else 0.0, float(np.sum(a * a))
    return _Distance(
        max_abs=float(difference.max(initial=0.0)),
        mean_abs=float(difference.mean()) if a.size else 0.0,
        cosine=_cosine(a, b),
        snr_db=_decibels(signal / max(a.size, 1), noise),
        tolerance=relative * scale + yours.slack,
    )


def _cosine(a: Floats, b: Floats) -> float:
    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    if lengths == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(np.dot(a, b)) / lengths


def _decibels(signal: float, noise: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float("inf") if noise == 0 else float(10 * np.log10(np.float64(signal) / noise))


def _operator(trace: Trace, row: int) -> str:
    """Return the kernel's or delegate's event name of a value's instruction.

    It is logged before the value by our runtime, and after it by ExecuTorch's, which logs values
    within the scope of the kernel.
    """
    chain, instruction = trace.chain[row], trace.instruction[row]
    if chain < 0:
        return ""
    for rows in (range(row - 1, -1, -1), range(row + 1, len(trace))):
        for other in rows:
            if trace.chain[other] != chain or trace.instruction[other] != instruction:
                break
            name: Any = trace.text(int(trace.name[other]))
            scopes = (None, OPERATOR_CALL, DELEGATE_CALL)
            if trace.kind[other] == Kind.PROFILE and name not in scopes:
                return str(name)
    return ""
