"""ED00 files: known traps, and files made to mislead."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

from harness import (
    HOST_NANOSECONDS,
    NO_CLOCK,
    Block,
    ClockDomain,
    FormatError,
    Kind,
    LeftOut,
    Trace,
    UsageError,
    ValueType,
    left_out,
    read_ed00,
    write_ed00,
)
from harness.decode import ed00_schema as ed
from tests.support.logs import profile_trace

RECORDED = Path(__file__).parent.parent / "fixtures" / "kws_f32_executorch.etdp"


def small(**changes: int) -> Trace:
    """Two events of one name in one block; ``changes`` are cells of the second."""
    trace = profile_trace([1, 3], [2, 4], HOST_NANOSECONDS, ["body", "body"])
    columns = {name: getattr(trace, name).copy() for name in changes}
    for name, value in changes.items():
        columns[name][1] = value
    return Trace(**{name: columns.get(name, getattr(trace, name)) for name in trace.__slots__})


def test_the_recorded_dump_of_the_real_runtime() -> None:
    trace = read_ed00(RECORDED.read_bytes())
    assert [(block.name, block.count) for block in trace.blocks] == [
        ("Default", 2),
        ("Execute", 63),
        ("Execute", 63),
        ("Execute", 63),
    ]
    assert np.all(trace.end >= trace.start)
    assert np.all(trace.kind == Kind.PROFILE)
    assert left_out(trace) == LeftOut()


def test_repeats_in_one_run_are_all_kept_in_order() -> None:
    trace = read_ed00(write_ed00(small()))
    assert trace.start.tolist() == [1, 3]
    assert len(trace.names) == 2  # "Execute" and "body"


def test_allocation_events_are_read() -> None:
    trace = Trace.unset(1, blocks=[Block("Execute", 0, 1)], clocks=[HOST_NANOSECONDS])
    trace.kind[:], trace.allocator[:], trace.size[:] = Kind.ALLOCATION, 7, 2**40
    again = read_ed00(write_ed00(trace))
    assert again == trace
    assert again.clock.tolist() == [NO_CLOCK]
    assert len(read_ed00(write_ed00(trace, allocation_events=False))) == 0


def test_what_an_ed00_file_cannot_hold_is_counted() -> None:
    npu = ClockDomain("npu", None, 32)
    trace = Trace.unset(4, blocks=[Block("", 0, 4)], clocks=[HOST_NANOSECONDS, npu])
    trace.kind[:3], trace.clock[:] = Kind.ALLOCATION, (0, 0, NO_CLOCK, 1)
    trace.failed[0] = True
    common = LeftOut(failed_allocations=1, foreign_clocks=1)
    assert left_out(trace) == replace(common, allocations=1, allocation_details=1)
    assert left_out(trace, allocation_events=False) == replace(common, allocations=3)
    assert read_ed00(write_ed00(trace)).kind.tolist() == [1, 1, 0]


def test_data_after_the_announced_size_is_refused_unless_allowed() -> None:
    trace = small()
    data = write_ed00(trace)
    older = data + write_ed00(small(end=99))
    with pytest.raises(FormatError, match="after the announced size") as caught:
        read_ed00(older)
    assert caught.value.offset == len(data)
    assert "older dumps" in caught.value.hint
    assert read_ed00(older, allow_trailing=True) == trace


@pytest.mark.parametrize(
    "data", [b"", b"ED00", b"\0" * 64, b"\x08\0\0\0ED0", b"PK\x03\x04" * 8, b"ET12" * 4]
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="no ED00 identifier"):
        read_ed00(data)


def test_an_unknown_version_is_refused() -> None:
    builder = flatbuffers.Builder(0)
    builder.StartObject(2)
    builder.PrependUint32Slot(ed.DumpTable.VERSION, 144, 0)
    builder.FinishSizePrefixed(builder.EndObject(), ed.IDENTIFIER)
    with pytest.raises(FormatError, match="unsupported ETDump version 144"):
        read_ed00(bytes(builder.Output()))


def test_a_dump_without_anything_is_an_empty_trace() -> None:
    empty = Trace.unset(0, clocks=[HOST_NANOSECONDS])
    assert read_ed00(write_ed00(empty)) == empty


def test_fields_are_aligned_as_with_a_size_prefix() -> None:
    trace = small()
    data = write_ed00(trace)
    assert read_ed00(data[4:]) == trace  # its prefix was cut off
    assert read_ed00(data[4:] + bytes(4)) == trace
    ends = data.index(struct.pack("<2H", 20, 12)) + 2  # in the vtable of an event: start, end
    for moved in (8, 16):  # no base of the alignment suits both fields
        damaged = data[:ends] + struct.pack("<H", moved) + data[ends + 2 :]
        with pytest.raises(FormatError, match=r"misaligned field in Profile\.end"):
            read_ed00(damaged)


@pytest.mark.parametrize(("column", "value"), [("instruction", 2**31), ("chain", -(2**31) - 1)])
def test_a_value_too_large_for_the_format_is_refused(column: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"event 1: {column}"):
        write_ed00(small(**{column: value}))


@pytest.mark.parametrize(
    ("stated", "fields", "found"),
    [
        (ValueType.DOUBLE, {"INT": 5}, None),
        (ValueType.INT, {"INT": 5, "DOUBLE": 0}, 5),
        (ValueType.DOUBLE, {"INT": 5, "DOUBLE": 0}, 0.0),
        (ValueType.NULL, {"INT": 5}, None),
        (ValueType.NULL, {}, "nothing"),
    ],
)
def test_a_value_has_the_content_of_its_stated_type(
    stated: ValueType, fields: dict[str, int], found: object
) -> None:
    builder = flatbuffers.Builder(0)
    numbers = {}
    for slot, number in fields.items():
        builder.StartObject(1)
        builder.PrependInt64Slot(ed.NumberTable.VALUE, number, 0)
        numbers[ed.ValueTable[slot]] = builder.EndObject()
    builder.StartObject(8)
    builder.PrependInt8Slot(ed.ValueTable.TYPE, stated, 0)
    for field, offset in numbers.items():
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    value = builder.EndObject()
    event = table(builder, 3, s2=table(builder, 6, s2=value))
    data = dump(builder, [table(builder, 4, s3=offsets(builder, [event]))])
    if found is None:
        with pytest.raises(FormatError, match="no content of the stated type in Value"):
            read_ed00(data)
        return
    (read,) = read_ed00(data).debug_values
    assert (read.value, read.type) == (None if found == "nothing" else found, stated)


def table(builder: flatbuffers.Builder, slots: int, **references: int) -> int:
    builder.StartObject(slots)
    for slot, offset in references.items():
        builder.PrependUOffsetTRelativeSlot(int(slot[1:]), offset, 0)
    return int(builder.EndObject())


def offsets(builder: flatbuffers.Builder, items: list[int]) -> int:
    builder.StartVector(4, len(items), 4)
    for item in items:
        builder.PrependUOffsetTRelative(item)
    return int(builder.EndVector())


def dump(builder: flatbuffers.Builder, runs: list[int]) -> bytes:
    root = table(builder, 2, s1=offsets(builder, runs))
    builder.FinishSizePrefixed(root, ed.IDENTIFIER)
    return bytes(builder.Output())


def test_shared_tables_and_vtables_are_read() -> None:
    builder = flatbuffers.Builder(0)
    name = builder.CreateString("x")
    event = table(builder, 3, s0=table(builder, 8, s0=name))
    run = table(builder, 4, s0=name, s3=offsets(builder, [event] * 3))
    trace = read_ed00(dump(builder, [run, run]))
    assert [(block.name, block.count) for block in trace.blocks] == [("x", 3), ("x", 3)]
    assert {trace.text(int(index)) for index in trace.name} == {"x"}


@pytest.mark.parametrize("filled", [0, 2])
def test_an_event_is_exactly_one_thing(filled: int) -> None:
    builder = flatbuffers.Builder(0)
    inner = {f"s{slot}": table(builder, 8) for slot in range(filled)}
    event = table(builder, 3, **inner)
    run = table(builder, 4, s3=offsets(builder, [event]))
    with pytest.raises(FormatError, match="not exactly one of profile, allocation, debug"):
        read_ed00(dump(builder, [run]))


def test_a_small_file_cannot_claim_much_memory() -> None:
    """Runs that share one vector of events multiply; so do strings that overlap."""
    builder = flatbuffers.Builder(0)
    event = table(builder, 3, s0=table(builder, 8))
    run = table(builder, 4, s3=offsets(builder, [event] * 5000))
    shared_events = dump(builder, [run] * 5000)
    refused_cheaply(shared_events, "vectors overlap")

    # Many names inside one block of bytes, each of which looks like a long string.
    builder = flatbuffers.Builder(0)
    blob = struct.pack("<I", 0x8000) * 20_000
    content = builder.CreateByteVector(blob)
    events = []
    for index in range(4000):
        inside = content - 4 - 4 * index
        events.append(table(builder, 3, s0=table(builder, 8, s0=inside)))
    run = table(builder, 4, s3=offsets(builder, events))
    refused_cheaply(dump(builder, [run]), "strings overlap")


def test_events_that_are_one_table_take_memory_in_proportion() -> None:
    """The most events that a file can have: four bytes each, a reference."""
    builder = flatbuffers.Builder(0)
    name = builder.CreateString("name")
    builder.StartObject(8)
    for slot in (ed.Profile.CHAIN, ed.Profile.INSTRUCTION, ed.Profile.DELEGATE_INT):
        builder.PrependInt32Slot(slot, 4, 0)
    for slot in (ed.Profile.START, ed.Profile.END):
        builder.PrependUint64Slot(slot, 9, 0)
    for slot in (ed.Profile.NAME, ed.Profile.DELEGATE_STR):
        builder.PrependUOffsetTRelativeSlot(slot, name, 0)
    event = table(builder, 3, s0=builder.EndObject())
    data = dump(builder, [table(builder, 4, s3=offsets(builder, [event] * 20_000))])
    tracemalloc.start()
    assert len(read_ed00(data)) == 20_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * len(data)


def refused_cheaply(data: bytes, why: str) -> None:
    tracemalloc.start()
    with pytest.raises(FormatError, match=why):
        read_ed00(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * len(data)


def test_many_events_of_many_names() -> None:
    count = 5000
    names = [f"operator {number % 1000}" for number in range(count)]
    trace = profile_trace(range(count), range(1, count + 1), HOST_NANOSECONDS, names)
    assert read_ed00(write_ed00(trace)) == trace
