"""Strategies for arbitrary traces: any content that a reader must handle, however unlikely."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from hypothesis import strategies as st

from harness.decode.ed00_schema import ValueType
from harness.decode.ed00_writer import write_ed00
from harness.records.trace import (
    HOST_NANOSECONDS,
    NO_COUNT,
    Block,
    ClockDomain,
    DebugValue,
    HardwareCounter,
    Kind,
    TensorValue,
    Trace,
)

INT32: Final = st.integers(-(2**31), 2**31 - 1)
INT64: Final = st.integers(-(2**63), 2**63 - 1)
UINT32: Final = st.integers(0, 2**32 - 1)

_DIFFICULT_NAMES: Final = [b"", b"Method::execute", b"a", b"a\0", b"\xff\xfe", "größe".encode()]
"""Names that readers got wrong: empty, with a zero byte, invalid UTF-8, not ASCII."""


def names(max_size: int = 12) -> st.SearchStrategy[str]:
    """Strategy for names as devices send them: any bytes, invalid UTF-8 as surrogate escapes.

    Args:
        max_size: Largest number of bytes, except for a few difficult names.
    """
    raw = st.one_of(st.sampled_from(_DIFFICULT_NAMES), st.binary(max_size=max_size))
    return raw.map(lambda name: name.decode("utf-8", "surrogateescape"))


@st.composite
def _tensors(draw: st.DrawFn) -> TensorValue:
    """Tensors without overlapping elements, with dimensions in any order and gaps between them."""
    sizes = draw(st.lists(st.integers(0, 2**9), max_size=4))
    strides, reach = [0] * len(sizes), 1
    for dimension in draw(st.permutations(range(len(sizes)))):
        strides[dimension] = reach * draw(st.integers(1, 2**5))
        reach = strides[dimension] * max(sizes[dimension], 1)
    return TensorValue(draw(st.integers(-128, 127)), tuple(sizes), tuple(strides), draw(INT64))


def debug_values(max_tensors: int = 3) -> st.SearchStrategy[DebugValue]:
    """Strategy for logged values of every type; the bytes of tensors may be anywhere.

    Args:
        max_tensors: Largest number of tensors in a list.
    """
    outputs = st.sampled_from([None, False, True])
    tensors = _tensors()
    return st.one_of(
        st.builds(DebugValue, INT64, st.just(ValueType.INT.value), outputs),
        st.builds(DebugValue, st.booleans(), st.just(ValueType.BOOL.value), outputs),
        st.builds(DebugValue, st.floats(width=32), st.just(ValueType.FLOAT.value), outputs),
        st.builds(DebugValue, st.floats(), st.just(ValueType.DOUBLE.value), outputs),
        st.builds(DebugValue, tensors, st.just(ValueType.TENSOR.value), outputs),
        st.builds(
            DebugValue,
            st.lists(tensors, max_size=max_tensors).map(tuple),
            st.just(ValueType.TENSOR_LIST.value),
            outputs,
        ),
        st.builds(DebugValue, st.none(), st.integers(0, 7), outputs),
    )


@st.composite
def traces(
    draw: st.DrawFn,
    *,
    max_blocks: int = 4,
    max_events: int = 6,
    kinds: tuple[Kind, ...] = tuple(Kind),
    clock: ClockDomain = HOST_NANOSECONDS,
    counters: int = 0,
) -> Trace:
    """Strategy for any trace that an ED00 file can hold, sensible or not; or with ``counters``.

    Args:
        draw: Given by Hypothesis.
        max_blocks: Largest number of blocks.
        max_events: Largest number of events in a block.
        kinds: Kinds of events.
        clock: Clock of all events that have a time.
        counters: Largest number of hardware counters, for which ED00 files have no place.
    """
    pool = draw(st.lists(names(), min_size=1, max_size=5))
    blocks, first = [], 0
    for _ in range(draw(st.integers(0, max_blocks))):
        count = draw(st.integers(0, max_events))
        allocators = tuple(draw(st.lists(names(), max_size=2)))
        blocks.append(Block(draw(names()), first, count, draw(INT32), allocators))
        first += count
    trace = Trace.unset(
        first,
        names=pool,
        blocks=blocks,
        clocks=[clock],
        counters=draw(_counters(counters)),
        metadata_bytes=draw(st.binary(max_size=20)),
        debug_values=draw(st.lists(debug_values(), max_size=3)) if Kind.DEBUG in kinds else (),
    )
    ticks = st.integers(0, clock.modulus - 1)
    for row in range(first):
        _fill(draw, trace, row, draw(st.sampled_from(kinds)), ticks)
    return trace.sealed()


def _counters(largest: int) -> st.SearchStrategy[list[HardwareCounter]]:
    """Strategy for hardware counters with names of their own."""
    one = st.builds(HardwareCounter, names(), st.sampled_from([8, 32, 48]))
    return st.lists(one, max_size=largest, unique_by=lambda counter: counter.name)


def _fill(
    draw: st.DrawFn, trace: Trace, row: int, kind: Kind, ticks: st.SearchStrategy[int]
) -> None:
    trace.kind[row] = kind
    if kind is Kind.ALLOCATION:
        trace.allocator[row] = draw(INT32)
        trace.size[row] = draw(INT64)
        return
    index = st.integers(-1, len(trace.names) - 1)
    trace.name[row] = draw(index)
    trace.delegate_str[row] = draw(index)
    trace.instruction[row] = draw(INT32)
    trace.delegate_int[row] = draw(INT32)
    if kind is Kind.DEBUG:
        trace.chain[row] = draw(INT64)
        trace.debug[row] = draw(st.integers(-1, len(trace.debug_values) - 1))
        return
    trace.chain[row] = draw(INT32)
    trace.clock[row] = 0
    trace.start[row] = draw(ticks)
    trace.end[row] = draw(ticks)
    trace.counts[row] = [
        draw(st.one_of(st.just(NO_COUNT), st.integers(0, 2**counter.bits - 1)))
        for counter in trace.counters
    ]
    if draw(st.booleans()):
        offset = draw(st.integers(0, len(trace.metadata_bytes)))
        length = draw(st.integers(0, len(trace.metadata_bytes) - offset))
        trace.metadata[row] = offset, length


@st.composite
def arbitrary_traces(draw: st.DrawFn, *, max_blocks: int = 4, max_events: int = 5) -> Trace:
    """Strategy for rows of any kind on two clocks and two tracers, in arbitrary order.

    Counters are narrow, so events wrap, overlap and contradict each other. Analyses must not fail.

    Args:
        draw: Given by Hypothesis.
        max_blocks: Largest number of blocks.
        max_events: Largest number of events in a block.
    """
    clocks = [
        ClockDomain("cpu", Fraction(10**6), draw(st.sampled_from([16, 32, 48]))),
        ClockDomain("npu", None, 24, down=True),
    ]
    blocks, count = [], 0
    for size in draw(st.lists(st.integers(0, max_events), max_size=max_blocks)):
        blocks.append(Block("Execute", count, size, allocators=("heap",)))
        count += size
    widths = draw(st.lists(st.sampled_from([8, 32]), max_size=2))
    counters = [HardwareCounter(f"counter {bits}.{i}", bits) for i, bits in enumerate(widths)]
    names = ["DELEGATE_CALL", "a"]
    trace = Trace.unset(count, names=names, blocks=blocks, clocks=clocks, counters=counters)
    turn = draw(st.sampled_from([0, *(block.first for block in blocks)]))
    trace.tracer[:] = [row >= turn for row in range(count)]  # each has blocks of its own
    for row in range(count):
        trace.kind[row] = draw(st.sampled_from([0, 0, 0, 1, 2]))
        trace.name[row] = draw(st.integers(-1, 1))
        trace.chain[row] = draw(st.integers(-1, 1))
        trace.instruction[row] = draw(st.integers(-1, 1))
        trace.delegate_int[row] = draw(st.sampled_from([-1, -1, 0, 5]))
        trace.clock[row] = draw(st.sampled_from([0, 0, 1] if trace.kind[row] == 0 else [0, 255]))
        limit = 2 ** (clocks[trace.clock[row]].bits if trace.clock[row] < 2 else 64) - 1
        ticks = st.one_of(st.integers(0, min(limit, 20)), st.integers(0, limit))
        trace.start[row], trace.end[row] = draw(ticks), draw(ticks)
        for number, counter in enumerate(counters if trace.kind[row] == 0 else ()):
            trace.counts[row, number] = draw(st.integers(NO_COUNT, 2**counter.bits - 1))
        if trace.kind[row] == 1:
            trace.allocator[row] = draw(st.integers(0, 2))
            trace.size[row] = draw(st.sampled_from([-30, -20, -10, 10, 20]))
            trace.offset[row] = draw(st.sampled_from([-1, 0, 10, 16]))
            trace.failed[row] = draw(st.booleans())
    return trace.sealed()


def ed00_files(*, prefixed: bool | None = None, max_blocks: int = 4) -> st.SearchStrategy[bytes]:
    """Strategy for ED00 files of any trace, in the format of ExecuTorch's Inspector.

    Args:
        prefixed: Whether the size comes first, as ExecuTorch writes it; None for either.
        max_blocks: Largest number of blocks.
    """
    either = st.booleans() if prefixed is None else st.just(prefixed)
    files = traces(max_blocks=max_blocks).map(write_ed00)
    return st.tuples(files, either).map(lambda drawn: drawn[0] if drawn[1] else drawn[0][4:])
