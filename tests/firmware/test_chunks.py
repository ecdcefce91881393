"""A log read in chunks: dividing it changes nothing, and what does not arrive is counted."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import ClockDomain, FormatError, Losses, Stack, TensorValue, Trace, read_log
from harness.decode.device_log import join_debug_buffers
from tests.support.examples import examples
from tests.support.tracer import CTracer, Pair
from tests.support.tracer_calls import CALL
from tests.support.tracer_model import Model


class Piece(NamedTuple):
    """A chunk as it is read: its image and its debug buffer."""

    log: bytes
    debug: bytes


LARGE = 1 << 14
CLOCKS = [ClockDomain(f"clock {i}", None, 32) for i in range(255)]
# Allocations of undeclared allocators are not for the tracer to judge, nor for the host to accept.
CALLS = st.lists(
    CALL.filter(lambda call: call[0] not in ("allocation", "free", "failure", "recycle")),
    max_size=40,
)


def logged(library: ct.CDLL, calls: list[tuple], cuts: set[int], number: int = 0) -> list[Piece]:
    """The images of a log that is read and emptied before each of the calls at ``cuts``."""
    both = Pair(CTracer(library, LARGE, LARGE), Model(LARGE, LARGE))
    both.make(("allocator", b"method"))
    both.tracer.call("set_tracer_number", number)
    both.make(("debug", 2))
    images = []
    for place, call in enumerate(calls):
        if place in cuts:
            images.append(Piece(both.tracer.image(), both.tracer.debug_bytes()))
            both.make(("recycle",))
        both.make(call)
        if place % 3 == 0:
            both.make(("allocation", 1, place, place))
    return [*images, Piece(both.tracer.image(), both.tracer.debug_bytes())]


def read(pieces: Sequence[Piece]) -> Trace:
    return read_log(b"".join(piece.log for piece in pieces), CLOCKS)


def placeless(trace: Trace) -> Trace:
    """The trace with tensors that do not say where in the debug buffer they are."""

    def change(tensor: Any) -> Any:
        moved = isinstance(tensor, TensorValue) and tensor.offset >= 0
        return replace(tensor, offset=0) if moved else tensor

    values = [
        replace(
            value,
            value=tuple(map(change, value.value))
            if isinstance(value.value, tuple)
            else change(value.value),
        )
        for value in trace.debug_values
    ]
    return replace(trace, debug_values=tuple(values))


@given(calls=CALLS, cuts=st.sets(st.integers(0, 40)), data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_any_division_of_a_log_gives_the_same_trace(
    etstub: ct.CDLL, calls: list[tuple], cuts: set[int], data: st.DataObject
) -> None:
    [whole] = logged(etstub, calls, set())
    chunks = logged(etstub, calls, cuts)
    expected = read([whole])
    assert read(chunks) == expected
    debug = join_debug_buffers(chunk.debug for chunk in chunks)
    assert debug.rstrip(b"\0") == whole.debug.rstrip(b"\0")
    # In another order the bytes of tensors are elsewhere, and nothing else changes.
    shuffled = read(data.draw(st.permutations(chunks)))
    assert placeless(shuffled) == placeless(expected)


@given(calls=CALLS, cuts=st.sets(st.integers(0, 40)), data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_two_tracers_are_told_apart(
    etstub: ct.CDLL, calls: list[tuple], cuts: set[int], data: st.DataObject
) -> None:
    chunks = [*logged(etstub, calls, cuts), *logged(etstub, calls, cuts, 7)]
    expected = read(logged(etstub, calls, cuts))
    count = len(expected)
    both = read(data.draw(st.permutations(chunks)))
    assert both.tracer.tolist() == [0] * count + [7] * count
    assert len(set(zip(both.tracer.tolist(), both.record.tolist(), strict=True))) == 2 * count
    assert both.blocks == (
        *expected.blocks,
        *(replace(block, first=block.first + count) for block in expected.blocks),
    )
    for half in (range(count), range(count, 2 * count)):
        for column in ("record", "kind", "start", "end", "chain", "instruction", "size"):
            assert np.array_equal(getattr(both, column)[half], getattr(expected, column))
        assert [both.text(i) for i in both.name[half]] == [expected.text(i) for i in expected.name]
        metadata = [both.metadata_of(row) for row in half]
        assert metadata == [expected.metadata_of(row) for row in range(count)]
        values = [both.debug_values[i].type for i in both.debug[half] if i >= 0]
        assert values == [expected.debug_values[i].type for i in expected.debug if i >= 0]


@given(calls=CALLS, cuts=st.sets(st.integers(0, 40), min_size=1), data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_missing_chunk_is_counted_with_its_records(
    etstub: ct.CDLL, calls: list[tuple], cuts: set[int], data: st.DataObject
) -> None:
    chunks = logged(etstub, calls, cuts)
    if len(chunks) == 1:
        return
    # That the last one is missing no other can tell.
    missing = data.draw(st.sets(st.integers(0, len(chunks) - 2), min_size=1))
    whole = read(chunks)
    present = [chunk for number, chunk in enumerate(chunks) if number not in missing]
    part = read(present)

    spans = [first_and_count(chunk.log) for chunk in chunks]
    lost = [range(*spans[number]) for number in missing]
    assert part.losses == Losses(
        values=whole.losses.values, chunks=len(missing), records=sum(map(len, lost))
    )
    kept = [record for record in whole.record.tolist() if not any(record in span for span in lost)]
    assert part.record.tolist() == kept
    rows = np.searchsorted(whole.record, kept)
    for column in ("kind", "start", "end", "chain", "instruction", "allocator", "size", "offset"):
        assert np.array_equal(getattr(part, column), getattr(whole, column)[rows])
    # Every event is still in a block of its own block's name, and every allocator has its name.
    assert [block_of(part, row) for row in range(len(part))] == [
        block_of(whole, row) for row in rows.tolist()
    ]


def first_and_count(image: bytes) -> tuple[int, int]:
    """First record of an image, and the one behind its last; copies do not count."""
    words = np.frombuffer(image, "<u4", 16)
    records = np.frombuffer(image, np.uint8, 16 * int(words[3]), 64).reshape(-1, 16)
    copies = 0
    kinds = 2, 3, 27  # block, allocator, clock
    while copies < len(records) and records[copies, 0] in kinds and records[copies, 1] == 1:
        copies += 1
    return int(words[12]), int(words[12]) + len(records) - copies


def block_of(trace: Trace, row: int) -> tuple[object, ...]:
    [block] = [b for b in trace.blocks if b.first <= row < b.first + b.count]
    number = int(trace.allocator[row])
    return block.name, block.allocators[number - 1] if number > 0 else None


def test_a_log_that_was_full_goes_on_in_the_next_chunk(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 96)
    tracer.call("create_event_block", b"Execute")
    for number in range(8):
        tracer.call("end_profiling", tracer.start(b"op", 0, number))
    chunks = [tracer.image()]
    tracer.call("log_recycle")
    tracer.call("end_profiling", tracer.start(b"op", 0, 8))
    trace = read_log(chunks[0] + tracer.image())
    assert trace.instruction.tolist() == [0, 1, 2, 3, 8]
    assert trace.losses == Losses(events=4)
    assert [(block.name, block.count) for block in trace.blocks] == [("Execute", 5)]


def test_a_block_without_its_record_goes_on_without_its_name(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 60)
    tracer.call("create_event_block", b"first")
    tracer.call("end_profiling", tracer.start(None, 0, 0))
    tracer.call("create_event_block", b"second")
    chunks = [tracer.image()]
    tracer.call("log_recycle")
    tracer.call("end_profiling", tracer.start(None, 0, 1))
    trace = read_log(chunks[0] + tracer.image())
    assert [(block.name, block.count) for block in trace.blocks] == [("first", 1), ("", 1)]
    assert trace.losses == Losses(blocks=1)


def test_the_header_says_who_logged_and_how_deep_its_stack_was(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 64)
    tracer.call("set_tracer_number", 3)
    tracer.call("set_stack_used", 700, 2048)
    assert read_log(tracer.image()).stacks == (Stack(3, 700, 2048),)


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (lambda first, second: first + second + first, "chunk number"),
        (lambda first, second: first + second[:48] + b"\x09" + second[49:], "first record"),
        (lambda first, second: first + second.replace(b"op", b"po"), "names"),
        (lambda first, second: first + b"E" + second, "log"),
        (lambda first, second: first + second[:-1], "records or names"),
        (lambda first, second: first[:44] + b"\x05" + first[45:] + second, "first record"),
    ],
)
def test_chunks_that_contradict_each_other_are_refused(
    etstub: ct.CDLL, edit: object, field: str
) -> None:
    tracer = CTracer(etstub, 256)
    tracer.call("create_event_block", b"Execute")
    tracer.call("end_profiling", tracer.start(b"op", 0, 1))
    first = tracer.image()
    tracer.call("log_recycle")
    tracer.call("end_profiling", tracer.start(b"op", 0, 2))
    assert callable(edit)
    with pytest.raises(FormatError) as caught:
        read_log(edit(first, tracer.image()))
    assert caught.value.field == field
