"""Strategies for traces: arbitrary ones, however unlikely, realistic ones, and traces by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from harness.analyze.ticks import default_jitter
from harness.decode.ed00_schema import ValueType
from harness.decode.ed00_writer import write_ed00
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    HOST_NANOSECONDS,
    NO_COUNT,
    NO_NAME,
    OPERATOR_CALL,
    Block,
    ClockDomain,
    DebugValue,
    HardwareCounter,
    Kind,
    TensorValue,
    Trace,
)


@dataclass(frozen=True)
class EventSpec:
    """An event, in the order of a log.

    Attributes:
        name: Its name, or None.
        start: Raw start tick.
        end: Raw end tick.
        chain: Chain index.
        instruction: Instruction id.
        delegate: Delegate debug id, a number or a string, or None.
        metadata: Metadata of a delegate, or None.
        value: A logged value: makes it a debug event, which has no time.
        allocated: Bytes allocated from allocator 1: makes it an allocation.
        counts: What each counter of the trace counted; empty for an event without counts.
    """

    name: str | None = None
    start: int = 0
    end: int = 0
    chain: int = 0
    instruction: int = 0
    delegate: int | str | None = None
    metadata: bytes | None = None
    value: DebugValue | None = None
    allocated: int | None = None
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunSpec:
    """A block of events.

    Attributes:
        events: In log order.
        name: Name of the block.
        bundled: Index of the bundled input that ran, -1 without one.
        allocators: Names of its allocators, numbered from 1.
    """

    events: Sequence[EventSpec]
    name: str = "Execute"
    bundled: int = -1
    allocators: tuple[str, ...] = ()


def trace_of(
    *runs: RunSpec, clock: ClockDomain = HOST_NANOSECONDS, counters: Sequence[HardwareCounter] = ()
) -> Trace:
    """Return the trace of the runs, with all events on one clock, and these hardware counters.

    Examples:
        >>> trace = trace_of(RunSpec([EventSpec("Method::execute", 0, 100)]))
        >>> len(trace), trace.names
        (1, ('Method::execute',))
    """
    events = [event for run in runs for event in run.events]
    texts = [event.name for event in events] + [event.delegate for event in events]
    names = [*dict.fromkeys(text for text in texts if isinstance(text, str))]
    metadata = b"".join(event.metadata or b"" for event in events)
    blocks, first = [], 0
    for run in runs:
        blocks.append(Block(run.name, first, len(run.events), run.bundled, run.allocators))
        first += len(run.events)
    trace = Trace.unset(
        len(events),
        names=names,
        blocks=blocks,
        clocks=[clock],
        counters=counters,
        metadata_bytes=metadata,
        debug_values=[event.value for event in events if event.value is not None],
    )
    offset = logged = 0
    for row, event in enumerate(events):
        fill: dict[str, Any] = {
            "name": NO_NAME if event.name is None else names.index(event.name),
            "chain": event.chain,
            "instruction": event.instruction,
        }
        if event.value is not None:
            fill |= {"kind": Kind.DEBUG, "debug": logged}
            logged += 1
        elif event.allocated is not None:
            fill = {"kind": Kind.ALLOCATION, "allocator": 1, "size": event.allocated}
        else:
            fill |= {"clock": 0, "start": event.start, "end": event.end}
        if isinstance(event.delegate, str):
            fill["delegate_str"] = names.index(event.delegate)
        elif event.delegate is not None:
            fill["delegate_int"] = event.delegate
        if event.counts:
            fill["counts"] = event.counts
        for column, value in fill.items():
            getattr(trace, column)[row] = value
        if event.metadata is not None:
            trace.metadata[row] = offset, len(event.metadata)
            offset += len(event.metadata)
    return replace(trace).sealed()


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
    kinds: tuple[Kind, ...] = (Kind.PROFILE, Kind.ALLOCATION, Kind.DEBUG),
    clock: ClockDomain = HOST_NANOSECONDS,
    counters: int = 0,
) -> Trace:
    """Strategy for any trace that an ED00 file can hold, sensible or not; or with ``counters``.

    Args:
        draw: Given by Hypothesis.
        max_blocks: Largest number of blocks.
        max_events: Largest number of events in a block.
        kinds: Kinds of events; those from ``Kind.TASK`` on are for no ED00 file.
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
    if kind >= Kind.TASK:
        trace.clock[row] = 0
        trace.start[row] = trace.end[row] = draw(ticks)
        levels = {
            Kind.MARK: st.just(0.0),
            Kind.SAMPLE: st.one_of(INT32, st.floats(width=32, allow_infinity=False)),
        }
        trace.level[row] = draw(levels.get(kind, st.integers(0, 1)))
        return
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
        trace.kind[row] = draw(st.sampled_from([0, 0, 0, 1, 2, *Kind]))
        trace.name[row] = draw(st.integers(-1, 1))
        trace.chain[row] = draw(st.integers(-1, 1))
        trace.instruction[row] = draw(st.integers(-1, 1))
        trace.delegate_int[row] = draw(st.sampled_from([-1, -1, 0, 5]))
        instant = trace.kind[row] >= Kind.TASK
        clocks_of_kind = [0, 0, 1] if trace.kind[row] == 0 else [0, 0 if instant else 255]
        trace.clock[row] = draw(st.sampled_from(clocks_of_kind))
        limit = 2 ** (clocks[trace.clock[row]].bits if trace.clock[row] < 2 else 64) - 1
        ticks = st.one_of(st.integers(0, min(limit, 20)), st.integers(0, limit))
        trace.start[row], trace.end[row] = draw(ticks), draw(ticks)
        if instant:
            trace.end[row], trace.level[row] = trace.start[row], draw(st.integers(0, 1))
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


_LONGEST: Final = 2**55
"""Largest step in ticks, so that timelines stay far below 64 bits."""


def clock_domains(
    *, min_bits: int = 8, max_bits: int = 64, rated: bool | None = None
) -> st.SearchStrategy[ClockDomain]:
    """Strategy for counters of any width and direction.

    Args:
        min_bits: Smallest width, 8 or more.
        max_bits: Largest width, 64 or less.
        rated: Whether the rate is known; None for either.
    """
    rates = st.fractions(Fraction(1, 10), 10**10, max_denominator=10**6)
    known = {True: rates, False: st.none(), None: st.one_of(st.none(), rates)}[rated]
    widths = st.integers(min_bits, max_bits)
    return st.builds(ClockDomain, st.just("clock"), known, widths, st.booleans())


@dataclass(frozen=True)
class DrawnTimeline:
    """True start and end of each event in log order, and the counter that reads them.

    Attributes:
        clock: The counter.
        jitter: Largest backward step between ends of consecutive events, in ticks.
        starts: Ticks since an arbitrary instant, without wraps.
        ends: Likewise.
    """

    clock: ClockDomain
    jitter: int
    starts: list[int]
    ends: list[int]

    def reading(self, instant: int) -> int:
        """Return the counter's reading at an instant."""
        return (-instant if self.clock.down else instant) % self.clock.modulus

    def trace(self, first: int = 0, last: int | None = None, *, shift: int = 0) -> Trace:
        """Return the events ``first`` to ``last`` (exclusive) as logged, in one block.

        Args:
            first: Index of the first event.
            last: Index after the last event.
            shift: Offset of the counter in ticks.
        """
        columns = [
            np.array([self.reading(instant + shift) for instant in instants[first:last]], np.uint64)
            for instants in (self.starts, self.ends)
        ]
        count = len(columns[0])
        trace = Trace.unset(count, blocks=[Block("Execute", 0, count)], clocks=[self.clock])
        trace.clock[:] = 0
        trace.start[:], trace.end[:] = columns
        return trace.sealed()


@st.composite
def timelines(
    draw: st.DrawFn, *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> DrawnTimeline:
    """Strategy for timelines that wrapped readings determine: no gap is longer than a wrap.

    Args:
        draw: Given by Hypothesis.
        clocks: Counters that read them; any width from 8 to 64 bits by default.
        max_events: Largest number of events; the smallest is 1.
    """
    clock = draw(clock_domains(rated=False) if clocks is None else clocks)
    limit = default_jitter(clock)
    jitter = draw(st.sampled_from([0, limit])) if clock.bits < 56 else limit
    longest = min(clock.modulus - 1 - jitter, _LONGEST)
    now = draw(st.integers(0, 2**60))
    starts, ends = [], []
    for _ in range(draw(st.integers(1, max_events))):
        now += draw(st.one_of(st.integers(0, longest), st.just(longest), st.just(0)))
        ends.append(now)
        starts.append(now - draw(st.one_of(st.integers(0, longest), st.just(longest))))
    return DrawnTimeline(clock, jitter, starts, ends)


def wrapped_traces(
    *, clocks: st.SearchStrategy[ClockDomain] | None = None, max_events: int = 12
) -> st.SearchStrategy[Trace]:
    """Strategy for traces with wraps in and between events; ``timelines`` also has true times.

    Args:
        clocks: As for ``timelines``.
        max_events: Likewise.
    """
    return timelines(clocks=clocks, max_events=max_events).map(DrawnTimeline.trace)


_KERNELS: Final = ("add", "convolution", "linear", "relu", "softmax")
_MIN_BITS: Final = 16
"""Smallest width of a counter for which a few operators do not wrap twice."""


@dataclass(frozen=True)
class Execution:
    """A trace with its true durations.

    Attributes:
        trace: Blocks named ``Execute``, each with the same events.
        runs: Number of blocks.
        operators: Names of the operators of a run, in the order of their instructions;
            ``DELEGATE_CALL`` for a delegate call.
        durations: Duration of each operator per run in ticks, shape (runs, operators).
    """

    trace: Trace
    runs: int
    operators: list[str]
    durations: list[list[int]]


@st.composite
def executions(
    draw: st.DrawFn,
    *,
    runs: int | None = None,
    max_operators: int = 5,
    delegates: bool = False,
    clock: ClockDomain | None = None,
    counters: Sequence[HardwareCounter] = (),
) -> Execution:
    """Strategy for runs of one method as ExecuTorch logs them: kernels in OPERATOR_CALLs.

    The counter starts anywhere and may wrap in and between runs, but no gap hides a wrap.

    Args:
        draw: Given by Hypothesis.
        runs: Number of runs; None for one to three.
        max_operators: Largest number of instructions of the method; the smallest is 1.
        delegates: Instructions may be delegate calls, with one to three delegate events on a clock
            of their own, unrelated to the CPU's.
        clock: Clock of the CPU, at least 16 bits wide; None for any clock with a rate.
        counters: Hardware counters, which count more in a scope than in what it contains. Events of
            delegates have no counts.
    """
    if clock is None:
        clock = draw(clock_domains(min_bits=_MIN_BITS, rated=True))
    count = draw(st.integers(1, 3)) if runs is None else runs
    calls = draw(st.lists(_operators(delegates), min_size=1, max_size=max_operators))
    # A whole run, including gaps, stays below half a wrap.
    longest = clock.modulus // (8 * (max_operators + 1))
    tick = st.integers(1, min(longest, 2**40))
    # A call stays below a wrap of the delegates' clock, so that no duration is uncertain.
    npu_hz = Fraction(10**8)
    fits = clock.hz is not None and min(longest, 2**40) / clock.hz * npu_hz < 2**24
    clocks = [
        clock,
        ClockDomain("npu", draw(st.sampled_from([None, npu_hz] if fits else [None])), 24),
    ]
    anywhere = st.integers(0, clock.modulus - 1)
    before_a_wrap = tick.map(lambda left: clock.modulus - left)
    now, npu = draw(st.one_of(anywhere, before_a_wrap)), draw(st.integers(0, 2**24 - 1))
    blocks: list[RunSpec] = []
    durations = []
    few = st.tuples(*[st.integers(0, 1000)] * len(counters))
    for _ in range(count):
        began, lasted = now, []
        events: list[EventSpec] = []
        whole = draw(few)
        for instruction, (name, jobs) in enumerate(calls):
            start = now + draw(tick) // 4
            for job in range(jobs):
                end = npu + draw(st.integers(0, 2**20))
                events.append(EventSpec("npu_job", npu, end, 0, instruction, job))
                npu = end
            now = start + draw(tick)
            lasted.append(now - start)
            inner = draw(few)
            around = inner if name == DELEGATE_CALL else _sums(inner, draw(few))
            events.append(EventSpec(name, start, now, 0, instruction, counts=inner))
            if name != DELEGATE_CALL:
                events.append(EventSpec(OPERATOR_CALL, start, now, 0, instruction, counts=around))
            whole = _sums(whole, around)
        events.append(EventSpec(EXECUTION, began, now, -1, counts=whole))
        durations.append(lasted)
        blocks.append(RunSpec([_on_its_clock(event, clocks) for event in events], "Execute"))
        now += draw(tick)
    trace = trace_of(*blocks, counters=counters)
    of_delegates = (trace.delegate_int >= 0).astype(trace.clock.dtype)
    trace = replace(trace, clocks=tuple(clocks), clock=of_delegates).sealed()
    return Execution(trace, count, [name for name, _ in calls], durations)


def _on_its_clock(event: EventSpec, clocks: Sequence[ClockDomain]) -> EventSpec:
    """Return an event whose ticks are readings of its clock; delegates have the second one."""
    clock = clocks[0 if event.delegate is None else 1]
    start, end = (
        (-ticks if clock.down else ticks) % clock.modulus for ticks in (event.start, event.end)
    )
    return replace(event, start=start, end=end)


def _sums(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(a, b, strict=True))


def _operators(delegates: bool) -> st.SearchStrategy[tuple[str, int]]:
    """Strategy for the event name of an instruction, and its number of delegate events."""
    kernels = st.sampled_from(_KERNELS).map(lambda name: (f"native_call_{name}.out", 0))
    calls = st.tuples(st.just(DELEGATE_CALL), st.integers(1, 3))
    return st.one_of(kernels, calls) if delegates else kernels
