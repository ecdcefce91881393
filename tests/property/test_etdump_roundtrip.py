"""What was written reads the same; whatever is read gives a trace or a FormatError."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    HOST_NANOSECONDS,
    NO_CLOCK,
    NO_NAME,
    Block,
    DebugValue,
    FormatError,
    Kind,
    LeftOut,
    TensorValue,
    Trace,
    ValueType,
    left_out,
    read_ed00,
    read_log,
    write_ed00,
)
from harness.strategies import device_logs, traces
from harness.testing import device_log_format as log_format
from tests.support.examples import examples
from tests.support.logs import CompactLog

_Result = TypeVar("_Result")


@given(traces())
@settings(max_examples=examples(300), deadline=None)
def test_reading_what_was_written_gives_the_same_trace(trace: Trace) -> None:
    data = write_ed00(trace)
    assert read_ed00(data) == trace
    assert left_out(trace) == LeftOut()
    # The same buffer without its size prefix is the same dump.
    assert read_ed00(data[4:]) == trace


@given(traces(), traces())
@settings(max_examples=examples(50), deadline=None)
def test_traces_are_equal_only_when_their_files_say_the_same(one: Trace, other: Trace) -> None:
    assert (one == other) == (read_ed00(write_ed00(one)) == read_ed00(write_ed00(other)))


@given(traces(), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_every_single_difference_is_seen(trace: Trace, data: st.DataObject) -> None:
    """A changed cell makes a trace unequal, before and after a file."""
    if not len(trace):
        return
    row = data.draw(st.integers(0, len(trace) - 1))
    column = {
        Kind.PROFILE: ["start", "end", "chain", "instruction", "delegate_int"],
        Kind.ALLOCATION: ["allocator", "size"],
        Kind.DEBUG: ["chain", "instruction", "delegate_int"],
    }[Kind(int(trace.kind[row]))]
    name = data.draw(st.sampled_from(column))
    changed = getattr(trace, name).copy()
    changed[row] ^= 1
    different = dataclasses.replace(trace, **{name: changed})
    assert different != trace
    assert read_ed00(write_ed00(different)) == different != trace


@given(device_logs(counters=True))
@settings(max_examples=examples(200), deadline=None)
def test_a_device_log_survives_an_ed00_file_but_for_what_is_counted(log: CompactLog) -> None:
    trace = read_log(log.image())
    assert sum(block.count for block in trace.blocks) == len(trace)
    assert trace.losses.events == log.dropped_events
    again = read_ed00(write_ed00(trace), trace.clocks[0])
    lost = left_out(trace)
    assert lost.dropped_on_target == log.dropped_events
    assert lost.dropped_declarations == log.dropped_blocks
    assert [counter.bits for counter in trace.counters] == log.counter_bits
    counted = sum(record[:2] == bytes((log_format.Record.COUNTS, 0)) for record in records_of(log))
    assert lost.hardware_counts == counted == (trace.counts >= 0).any(axis=1).sum()
    assert len(again) == len(trace) - lost.allocations - lost.instants

    instants = trace.kind >= Kind.TASK
    assert lost.instants == np.count_nonzero(instants)
    kept = np.flatnonzero(~instants & ((trace.kind != Kind.ALLOCATION) | ~trace.failed))
    assert lost.allocations == lost.failed_allocations == len(trace) - len(kept) - lost.instants
    profile = trace.kind[kept] == Kind.PROFILE
    for column in ("kind", "chain", "instruction", "delegate_int", "allocator", "size"):
        assert np.array_equal(getattr(again, column), getattr(trace, column)[kept])
    for column in ("start", "end", "clock"):
        ours, theirs = getattr(again, column), getattr(trace, column)[kept]
        assert np.array_equal(ours[profile], theirs[profile])
    assert [again.text(i) for i in again.name] == [trace.text(i) for i in trace.name[kept]]
    metadata = [trace.metadata_of(row) for row in kept.tolist()]
    assert [again.metadata_of(row) for row in range(len(again))] == metadata
    delegates = [trace.text(i) for i in trace.delegate_str[kept]]
    assert [again.text(i) for i in again.delegate_str] == delegates
    assert [block.allocators for block in again.blocks] == [b.allocators for b in trace.blocks]
    assert [block.name for block in again.blocks] == [block.name for block in trace.blocks]


def records_of(log: CompactLog) -> list[bytes]:
    """Its records, without the contents of others, which may look like any."""
    records, left = [], 0
    for record in log.records:
        if left == 0:
            records.append(record)
            length = int.from_bytes(record[8:12], "little")
            left = (
                -(-length // log_format.RECORD_SIZE)
                if record[0] == log_format.Record.DELEGATE
                else 0
            )
        else:
            left -= 1
    return records


def full_trace() -> Trace:
    """A trace with every kind of event and every kind of value in it."""
    values = [
        DebugValue(-5, ValueType.INT, True),
        DebugValue(True, ValueType.BOOL),
        DebugValue(1.5, ValueType.FLOAT),
        DebugValue(float("-inf"), ValueType.DOUBLE),
        DebugValue(TensorValue(6, (1, 2), (2, 1), 64), ValueType.TENSOR),
        DebugValue((TensorValue(1, (3,), (1,), 0),) * 2, ValueType.TENSOR_LIST, False),
        DebugValue(None, ValueType.NULL),
    ]
    count = 6 + len(values) + 1  # the last debug event has no value
    trace = Trace.unset(
        count,
        names=["Execute", "OPERATOR_CALL", "delegate", "bad \udcff name"],
        blocks=[
            Block("Default", 0, 0, 3, ("method", "planned_0")),
            Block("Execute", 0, 6, 0, ("method",)),
            Block("Execute", 6, count - 6),
        ],
        clocks=[HOST_NANOSECONDS],
        metadata_bytes=b"metadata",
        debug_values=values,
    )
    trace.name[:] = np.arange(count) % 5 - 1
    trace.chain[:] = np.arange(count) % 3 - 1
    trace.kind[4:6] = Kind.ALLOCATION
    trace.name[4:6] = NO_NAME
    trace.chain[4:6] = -1
    trace.allocator[4:6] = 1, 2
    trace.size[4:6] = 100, 2000
    trace.metadata[1:4] = [(0, 4), (0, 4), (4, 4)]
    trace.clock[:4] = 0
    trace.start[:4], trace.end[:4] = 2**40, 2**40 + 17
    trace.delegate_str[2], trace.delegate_int[3] = 2, 9
    trace.kind[6:] = Kind.DEBUG
    trace.debug[6:-1] = np.arange(len(values))
    trace.clock[4:] = NO_CLOCK
    return trace.sealed()


def full_log() -> CompactLog:
    log = CompactLog().allocator("method").allocation(1, 64, tick=5, offset=0)
    log.block("Default").profile("Method::init", 0xFFFFFFF0, 0x10, chain=-1)
    log.block("Execute", 2).allocator(None).allocation(2, 9999, failed=True)
    log.profile("native_call_relu.out", 1, 2, chain=40_000, instruction=70_000)
    log.delegate("npu", 3, bytes(range(20))).profile(None, 3, 4, instruction=70_000)
    return log.profile(b"bad \xff name", 3, 4).profile(None, 5, 6)


INPUTS: dict[str, tuple[bytes, Any]] = {
    "ed00": (write_ed00(full_trace()), read_ed00),
    "unprefixed ed00": (write_ed00(full_trace())[4:], read_ed00),
    "compact": (full_log().image(), read_log),
}


def attempt(read: Callable[[bytes], _Result], data: bytes) -> _Result | FormatError:
    """Read; any other exception is a failure of the test."""
    try:
        return read(data)
    except FormatError as error:
        return error


def test_the_full_trace_round_trips() -> None:
    assert read_ed00(write_ed00(full_trace())) == full_trace()


@pytest.mark.attack("Files", "an ETDump truncated anywhere", "refused, or read up to the damage")
@pytest.mark.parametrize("name", INPUTS)
def test_every_truncation_is_refused_or_read(name: str) -> None:
    data, read = INPUTS[name]
    for length in range(len(data)):
        result = attempt(read, data[:length])
        assert isinstance(result, FormatError), f"a file cut at {length} was read"


@pytest.mark.attack("Files", "any damage of an ETDump", "a trace, or exit code 2")
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.slow
def test_no_damage_leads_to_anything_but_a_trace_or_a_format_error(name: str) -> None:
    data, read = INPUTS[name]
    random_bytes = random.Random(0)
    refused = 0
    rounds = 1500
    for _ in range(rounds):
        damaged = bytearray(data)
        for _ in range(random_bytes.choice((1, 1, 1, 2, 8))):
            damaged[random_bytes.randrange(len(damaged))] = random_bytes.choice(
                (0, 1, 4, 0x7F, 0x80, 0xFF, random_bytes.randrange(256))
            )
        result = attempt(read, bytes(damaged))
        if isinstance(result, FormatError):
            refused += 1
            assert result.offset is not None
            assert result.field
        else:
            assert len(result) <= len(data)
    assert refused > rounds // 20


@given(st.binary(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_arbitrary_bytes_behind_a_valid_beginning(tail: bytes) -> None:
    for start in (b"\x10\0\0\0ED00", (len(tail) + 8).to_bytes(4, "little") + b"\x08\0\0\0ED00"):
        attempt(read_ed00, start + tail)
