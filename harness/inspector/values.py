"""Logged values: how far they are from those of another trace, as text and as JSON.

Values of two traces are paired by execution, instruction and their order within it; with ETRecords
by the debug handles of the instruction, which another export of the same model keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.errors import NotComparableError
from harness.inspector.etrecord import as_tuple
from harness.printing import printable
from harness.records.result import encode
from harness.records.symbols import EventSymbols
from harness.records.trace import (
    DELEGATE_CALL,
    OPERATOR_CALL,
    Kind,
    TensorValue,
    Trace,
    tensor_array,
    type_name,
)
from harness.report.terminal import show_line, show_table
from harness.report.words import counted

if TYPE_CHECKING:
    from rich.console import Console


Floats = npt.NDArray[np.float64]

TOLERANCES: Final = {"float64": 1e-12, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference of two values of a type, relative to the tensor's largest absolute value.

Types that are not listed, such as int8, have to be equal.
"""


Deviation = Literal["none", "rounding", "saturation", "order", "scale", "not a number", "wrong"]
"""How a tensor differs: not at all; by rounding, at most one step of an integer type, or within the
tolerance of a float; only where one of both is at a bound, as of its type; the same values in
another order; by a factor, and for integers an offset; not a number on one side; or otherwise."""

HOW: Final[Mapping[Deviation, str]] = {
    "none": "equal",
    "rounding": "one rounding step",
    "saturation": "saturation",
    "order": "the same values in another order",
    "scale": "another scale",
    "not a number": "not a number on one side",
    "wrong": "wrong",
}
"""Words for each."""

_LEFT: Final = 0.5, 0.1
"""Parts of the difference and of the values that a fitted scale leaves at most."""


_Distance = Annotated[Any, msgspec.Meta(extra_json_schema={"type": ["number", "null"]})]
"""A float; JSON has null for one that is infinite or NaN."""


class ValueGap(msgspec.Struct, frozen=True):
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
        diverges: Whether the difference exceeds the tolerance.
        how: How they differ.
        differing: Number of elements that differ.
    """

    chain: int
    instruction: int
    position: int
    operator: str
    handles: tuple[int, ...]
    types: tuple[str, str]
    sizes: tuple[int, ...]
    executions: int
    max_abs: _Distance
    mean_abs: _Distance
    cosine: _Distance
    snr_db: _Distance
    tolerance: float
    diverges: bool
    how: Deviation = "none"
    differing: int = 0


class ValueComparison(msgspec.Struct, frozen=True):
    """The values of two traces, compared.

    Attributes:
        gaps: In the order of the first trace's instructions, the program's outputs last.
        unmatched: Tensors without a counterpart, or of another shape.
        lost: Tensors of either trace whose bytes were lost.
        note: How tensors of different programs were paired; empty for one program.
    """

    gaps: tuple[ValueGap, ...]
    unmatched: int
    lost: int
    note: str = ""

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
class LoggedTensor:
    """A tensor of one execution, or None if its bytes were lost.

    ``slack`` is how far a counterpart may be from it beyond the tolerance of their types.
    """

    row: int
    position: int
    tensor: TensorValue
    array: np.ndarray | None
    slack: float = 0.0


TensorKey = tuple[int, Hashable, int]
"""Execution, instruction or debug handles, and position among the tensors of the instruction."""


LoggedTensors = dict[TensorKey, LoggedTensor]

Joined = Mapping[tuple[int, int], tuple[int, int]]
"""Chain and number of an instruction, and of its counterpart."""


def compare_values(
    before: LoggedTrace, after: LoggedTrace, joined: Joined | None = None
) -> ValueComparison:
    """Compare the values that two traces logged.

    Args:
        before: The first trace.
        after: The second trace.
        joined: Of different programs: instructions of the second with their counterparts in the
            first. Only tensors of equal types are compared then.

    Raises:
        NotComparableError: A trace has no values, or no value has a counterpart.
        FormatError: Values are outside of the debug buffer.
    """
    by_handles = before.symbols is not None and after.symbols is not None
    mine, yours = (collect_tensors(logged, by_handles=by_handles) for logged in (before, after))
    for tensors, which in ((mine, "first"), (yours, "second")):
        if not tensors:
            raise NotComparableError(
                f"the {which} trace has no logged values",
                hint="run both with --values intermediate",
            )

    if joined is not None:
        yours = {_place_before(key, joined): tensor for key, tensor in yours.items()}

    def counterpart(key: TensorKey, tensor: LoggedTensor) -> LoggedTensor | None:
        mine, other = tensor.tensor, yours.get(key)
        if other is None or mine.sizes != other.tensor.sizes:
            return None
        return other if joined is None or mine.scalar_type == other.tensor.scalar_type else None

    compared = compare_pairs(before, mine, counterpart)
    if not compared.gaps:
        raise NotComparableError(
            "no value of the first trace has a counterpart in the second",
            hint="compare runs of the same model, or give the ETRecord of each export",
        )
    return replace(
        compared,
        unmatched=compared.unmatched + sum(key not in mine for key in yours),
        lost=compared.lost + _lost(yours),
    )


def _place_before(key: TensorKey, joined: Joined) -> TensorKey:
    """Return the key of a tensor's counterpart; one that no tensor has if there is none."""
    execution, place, position = key
    if not isinstance(place, tuple) or len(place) != 2 or place[0] < 0:
        return key
    return execution, joined.get(place, ("without", *place)), position


def compare_pairs(
    logged: LoggedTrace,
    tensors: LoggedTensors,
    counterpart: Callable[[TensorKey, LoggedTensor], LoggedTensor | None],
) -> ValueComparison:
    """Compare tensors with their counterparts, as far as they have one, in order of execution."""
    pairs: dict[Hashable, list[tuple[LoggedTensor, LoggedTensor]]] = {}
    unmatched = 0
    for key, mine in tensors.items():
        theirs = counterpart(key, mine)
        if theirs is None:
            unmatched += 1
        elif mine.array is not None and theirs.array is not None:
            pairs.setdefault(key[1:], []).append((mine, theirs))
    gaps = [_worst(logged, found) for found in pairs.values()]
    gaps.sort(key=lambda gap: (gap.chain < 0, gap.chain, gap.instruction, gap.position))
    return ValueComparison(tuple(gaps), unmatched, _lost(tensors))


def _lost(tensors: LoggedTensors) -> int:
    return sum(tensor.array is None for tensor in tensors.values())


def collect_tensors(logged: LoggedTrace, *, by_handles: bool) -> LoggedTensors:
    """Return every logged tensor by execution, instruction or handles, and position."""
    found: LoggedTensors = {}
    trace = logged.trace
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
                found[execution, place, position] = LoggedTensor(row, position, tensor, array)
    return found


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


def _worst(logged: LoggedTrace, pairs: Sequence[tuple[LoggedTensor, LoggedTensor]]) -> ValueGap:
    largest = [_differences(*pair).max(initial=0.0) for pair in pairs]
    mine, yours = pairs[int(np.argmax(np.nan_to_num(largest, nan=np.inf)))]
    difference, a, b = _differences(mine, yours), _numbers(mine), _numbers(yours)
    noise = float(np.mean(np.square(difference))) if a.size else 0.0
    signal = float(np.sum(a * a)) / max(a.size, 1)
    types = type_name(mine.tensor.scalar_type), type_name(yours.tensor.scalar_type)
    relative = max(TOLERANCES.get(name, 0.0) for name in types)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    worst, tolerance = float(difference.max(initial=0.0)), relative * scale + yours.slack
    trace, row = logged.trace, mine.row
    symbols = logged.symbols[row] if logged.symbols is not None else None
    return ValueGap(
        chain=int(trace.chain[row]),
        instruction=int(trace.instruction[row]),
        position=mine.position,
        operator=printable(_operator(trace, row)),
        handles=as_tuple(symbols.handles or ()) if symbols is not None else (),
        types=types,
        sizes=mine.tensor.sizes,
        executions=len(pairs),
        max_abs=worst,
        mean_abs=float(difference.mean()) if a.size else 0.0,
        cosine=_cosine(a, b),
        snr_db=_decibels(signal, noise),
        tolerance=tolerance,
        diverges=not worst <= tolerance,
        how=_deviation(a, b, difference, types, tolerance),
        differing=int(np.count_nonzero(~(difference == 0))),
    )


def _deviation(
    a: Floats, b: Floats, difference: Floats, types: tuple[str, str], tolerance: float
) -> Deviation:
    """Return how two tensors differ; the mildest that explains all elements.

    Args:
        a: Values of the first.
        b: Values of the second.
        difference: Absolute differences; NaN for a value that is not a number on one side.
        types: Their types.
        tolerance: Largest difference that the types allow.
    """
    whole = types[0] == types[1] and types[0] not in TOLERANCES
    step = 1.0 if whole else tolerance
    if not difference.any():
        return "none"
    if np.isnan(difference).any():
        return "not a number"
    if difference.max() <= step:
        return "rounding"
    far = difference > step
    if _saturates(a, b, far, types[0]) or _saturates(b, a, far, types[1]):
        return "saturation"
    if np.array_equal(np.sort(a), np.sort(b)):
        return "order"
    finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
    if finite and a.size >= 8 and far.sum() > 2 and _is_scaled(a, b, {*types} - {*TOLERANCES}):
        return "scale"
    return "wrong"


def _is_scaled(a: Floats, b: Floats, integers: set[str]) -> bool:
    """Return whether ``a`` is ``b`` times a factor, and plus an offset if one has an integer type.

    What the best fit leaves is then at most half of the difference, and a tenth of what is fitted
    (roots of the sums of squares). Of rounding and noise it leaves nearly all.
    """
    terms = np.stack((b, np.ones_like(b)) if integers else (b,), axis=1)
    left = np.linalg.norm(a - terms @ np.linalg.lstsq(terms, a)[0])
    whole = np.linalg.norm(a - b), np.linalg.norm(a - a.mean() if integers else a)
    return all(left < part * size for part, size in zip(_LEFT, whole, strict=True))


def _saturates(a: Floats, b: Floats, far: npt.NDArray[np.bool_], kind: str) -> bool:
    """Return whether ``a`` is at a bound wherever ``b`` is far from it, and beyond that bound.

    The bounds are its smallest and its largest value. They count if several elements are there, or
    if they are those of its type.
    """
    low, high = a.min(), a.max()
    limits = np.iinfo(kind) if kind.startswith(("int", "uint")) else None
    clipped = far & (((a == low) & (b < a)) | ((a == high) & (b > a)))
    if not np.array_equal(clipped, far):
        return False
    bounds = {float(value) for value in a[far]}
    known = {float(limits.min), float(limits.max)} if limits is not None else {np.inf, -np.inf}
    return all(bound in known or np.count_nonzero(a == bound) > 1 for bound in bounds)


def _numbers(logged: LoggedTensor) -> Floats:
    assert logged.array is not None
    return np.asarray(logged.array, np.float64).ravel()


def _differences(mine: LoggedTensor, yours: LoggedTensor) -> Floats:
    """Return absolute differences; 0 for two values that are not numbers, NaN for one."""
    a, b = _numbers(mine), _numbers(yours)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(a - b))


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


class ValuesDocument(ValueComparison, frozen=True, kw_only=True):
    """What ``etharness compare --values --json`` prints.

    ``first_diverging`` is an index of ``gaps``; null if all are within their tolerance. ``note``
    says how tensors of different programs were paired; "" for one program.
    """

    first: int | None = msgspec.field(name="first_diverging")


def values_document(found: ValueComparison) -> bytes:
    """Return the comparison as JSON."""
    first = next((index for index, gap in enumerate(found.gaps) if gap.diverges), None)
    return encode(ValuesDocument(**msgspec.structs.asdict(found), first=first))


HEADERS: Final = (
    *("operator", "instruction", "type", "sizes"),
    *("max abs", "mean abs", "cosine", "SNR [dB]", "tolerance", "how"),
)
NUMBERS: Final = range(4, 9)
"""Headers of the cells of a tensor, and which of them are numbers."""


def gap_cells(gap: ValueGap) -> tuple[str, ...]:
    """Return the cells of a tensor."""
    return (
        _gap_operator(gap),
        _gap_place(gap),
        gap.types[0] if len({*gap.types}) == 1 else " / ".join(gap.types),
        str([*gap.sizes]),
        f"{gap.max_abs:.3g}",
        f"{gap.mean_abs:.3g}",
        f"{gap.cosine:.6f}",
        f"{gap.snr_db:.1f}",
        f"{gap.tolerance:.3g}",
        HOW[gap.how],
    )


def verdict_lines(found: ValueComparison) -> list[str]:
    """Return what was compared in counts, and the first difference last."""
    within = len(found.gaps) - sum(gap.diverges for gap in found.gaps)
    lines = [found.note] if found.note else []
    lines += [f"{within} of {counted(len(found.gaps), 'tensor')} within their tolerance"]
    if found.unmatched:
        lines.append(f"{counted(found.unmatched, 'tensor')} without a counterpart")
    if found.lost:
        lines.append(f"LOSSES: the bytes of {counted(found.lost, 'tensor')} were lost")
    first = found.first_diverging
    if first is None:
        lines.append("no difference beyond the tolerances")
    else:
        lines.append(
            f"first difference: {_gap_operator(first)}, {_gap_place(first)}: largest difference "
            f"{first.max_abs:.3g}, tolerance {first.tolerance:.3g}; {_how(first)}"
        )
    return lines


def _how(gap: ValueGap) -> str:
    """Return how a tensor differs, and in how many of its elements."""
    elements = f"{gap.differing:,} of {counted(prod(gap.sizes), 'element')}"
    return f"{HOW[gap.how]} in {elements}"


def print_values(console: Console, found: ValueComparison, *, detailed: bool = False) -> None:
    """Print the tensors beyond their tolerance, in the order of execution, and the first of them.

    Args:
        console: Where to.
        found: The comparison.
        detailed: Also list tensors within their tolerance.
    """
    rows = [gap_cells(gap) for gap in found.gaps if detailed or gap.diverges]
    if rows:
        show_table(console, HEADERS, rows, numbers=NUMBERS)
    *counts, first = verdict_lines(found)
    for line in counts:
        show_line(console, line, style="bold red" if line.startswith("LOSSES") else None)
    if found.first_diverging is not None:
        show_line(console, first, style="bold")


def _gap_operator(gap: ValueGap) -> str:
    name = gap.operator or ("output" if gap.chain < 0 else "instruction")
    return f"{name} [{gap.position}]" if gap.position else name


def _gap_place(gap: ValueGap) -> str:
    if gap.chain < 0:
        return "output"
    place = f"{gap.chain}.{gap.instruction}"
    return f"{place} (handles {', '.join(map(str, gap.handles))})" if gap.handles else place
