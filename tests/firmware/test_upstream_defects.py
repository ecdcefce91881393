"""What ExecuTorch's ETDumpGen (1.5.1) gets wrong when it records, and what our tracer does there.

Every docstring states the defect; each was confirmed by running ETDumpGen.
"""

from __future__ import annotations

import ctypes as ct
import struct

import numpy as np
import pytest

from harness import (
    DebugLevel,
    DebugValue,
    Kind,
    Losses,
    Region,
    TensorValue,
    Trace,
    read_ed00,
    read_log,
    write_ed00,
)
from harness.testing import Op, Status, messages
from harness.testing import device_log_format as log_format
from tests.support.c_server import CServer
from tests.support.device_file import device_file
from tests.support.tiny_model import relu_model
from tests.support.tracer import CTracer, LoggedValue
from tests.support.values import logged_tensors

BFLOAT16 = 15

NAME = b"native_call_relu.out_123"
HALF = 5
INTERMEDIATE = 2
INPUT = struct.pack("<4f", -1, 2, -3, 4)


def started(library: ct.CDLL, size: int = 1024, debug: int = 0) -> CTracer:
    tracer = CTracer(library, size, debug)
    tracer.call("set_debug_level", INTERMEDIATE)
    tracer.call("create_event_block", b"Execute")
    return tracer


def profile(tracer: CTracer, count: int, name: bytes = NAME) -> None:
    for number in range(count):
        tracer.call("end_profiling", tracer.start(name, 0, number))


def log(tracer: CTracer, value: object, *, output: bool = False) -> None:
    tracer.call("log_evalue", int(output), ct.byref(LoggedValue.of(value)))


def file_of(tracer: CTracer) -> bytes:
    data = device_file(tracer)
    assert data is not None
    return data


def values_of(trace: Trace) -> list[DebugValue]:
    return [trace.debug_values[i] for i in trace.debug[trace.kind == Kind.DEBUG]]


def server_with(library: ct.CDLL, model: bytes, **memory: int) -> CServer:
    server = CServer(library, **memory)
    server.upload(Region.MODEL, 0, model)
    server.upload(Region.INPUT, 0, INPUT)
    return server


def test_a_kibibyte_is_enough_for_a_session(etstub: ct.CDLL) -> None:
    """It needs 131,521 bytes of static memory before it records anything."""
    tracer = started(etstub, 1024)
    profile(tracer, 50)
    trace = read_log(tracer.image())
    assert (len(trace), trace.losses) == (50, Losses())
    assert len(read_ed00(file_of(tracer))) == 50


def test_a_full_buffer_is_a_count(etstub: ct.CDLL) -> None:
    """It aborts the program when its buffer is full."""
    tracer = started(etstub, 1024)
    profile(tracer, 500)
    trace = read_log(tracer.image())
    assert trace.losses.events == 500 - len(trace) > 0
    assert trace.instruction.tolist() == list(range(len(trace)))


def test_a_larger_buffer_holds_more(etstub: ct.CDLL) -> None:
    """It stops at 16,377 events in a block, however large its buffer is."""
    tracer = started(etstub, 1 << 20)
    profile(tracer, 20_000)
    assert read_log(tracer.image()).losses == Losses()
    assert len(read_log(tracer.image())) == 20_000


def test_the_file_can_be_made_however_full_the_log_is(etstub: ct.CDLL) -> None:
    """Near the end of its memory it still records, and aborts when the file is asked for."""
    tracer, logged = started(etstub, 512), 0
    while not read_log(tracer.image()).losses.any:
        profile(tracer, 1)
        logged += 1
        trace = read_log(tracer.image())
        assert read_ed00(file_of(tracer)) == read_ed00(write_ed00(trace))
        assert len(trace) + trace.losses.events == logged
    assert logged > 20


def test_a_name_is_kept_once(etstub: ct.CDLL) -> None:
    """It repeats the name in each event: 76 bytes for one of 24 characters."""
    tracer = started(etstub, 1 << 14)
    profile(tracer, 100)
    few = len(tracer.image())
    profile(tracer, 100)
    assert len(tracer.image()) - few == 100 * log_format.RECORD_SIZE == 1600


def test_a_tracer_can_be_used_again(etstub: ct.CDLL) -> None:
    """Its reset does not rewind: each file holds all earlier ones, until the buffer is full."""
    tracer = started(etstub, 1024)
    profile(tracer, 20)
    first = file_of(tracer)
    for _ in range(100):
        tracer.call("log_recycle")
        profile(tracer, 20)
        assert len(read_log(tracer.image())) == 20
        assert len(file_of(tracer)) == len(first)


def test_the_file_can_be_asked_for_twice(etstub: ct.CDLL) -> None:
    """It finalises again, and the second file is longer than the first."""
    tracer = started(etstub)
    profile(tracer, 5)
    assert file_of(tracer) == file_of(tracer)


def test_the_debug_buffer_stays_when_the_log_is_emptied(etstub: ct.CDLL) -> None:
    """Its reset forgets where tensors go, and the next one aborts."""
    tracer = started(etstub, debug=64)
    log(tracer, (6, [4], bytes(range(16))))
    first = tracer.image()
    tracer.call("log_recycle")
    log(tracer, (6, [4], bytes(range(16, 32))))
    trace = read_log(first + tracer.image())
    assert (len(values_of(trace)), trace.losses) == (2, Losses())
    assert tracer.debug_bytes() == bytes(range(16, 32))


def test_a_small_debug_buffer_is_a_count(etstub: ct.CDLL) -> None:
    """It aborts when a tensor does not fit."""
    tracer = started(etstub, debug=16)
    for _ in range(3):
        log(tracer, (6, [4], bytes(16)))
    trace = read_log(tracer.image())
    assert trace.losses == Losses(values=2)
    assert len(values_of(trace)) == 3


def test_a_value_may_be_none(etstub: ct.CDLL) -> None:
    """It aborts when asked to log None."""
    tracer = started(etstub)
    log(tracer, None)
    [value] = values_of(read_ed00(file_of(tracer)))
    assert (value.value, value.type) == (None, 0)


@pytest.mark.parametrize("scalar_type", [HALF, BFLOAT16])
def test_half_and_bfloat16_are_types_like_others(etstub: ct.CDLL, scalar_type: int) -> None:
    """A tensor of either leaves a table half written: the whole file cannot be read."""
    tracer = started(etstub, debug=64)
    profile(tracer, 1)
    stored = np.array([0x3F80, 0x4000], np.uint16)
    log(tracer, (scalar_type, [2], stored.tobytes()))
    profile(tracer, 1)
    trace = read_ed00(file_of(tracer))
    assert [trace.text(int(name)) for name in trace.name] == [NAME.decode(), None, NAME.decode()]
    [value] = values_of(trace)
    assert isinstance(value.value, TensorValue)
    assert value.value.scalar_type == scalar_type
    start = value.value.offset
    assert tracer.debug_bytes()[start : start + 4] == stored.tobytes()


@pytest.mark.parametrize("value", [5, 2.5, True, None, (6, [], bytes(4)), [(6, [], bytes(4))]])
def test_every_output_is_marked_as_one(etstub: ct.CDLL, value: object) -> None:
    """It marks only tensors and lists of tensors as outputs of the program."""
    tracer = started(etstub, debug=64)
    log(tracer, value, output=True)
    log(tracer, value)
    assert [bool(v.output) for v in values_of(read_ed00(file_of(tracer)))] == [True, False]


def test_a_value_without_chain_has_the_chain_of_other_events(etstub: ct.CDLL) -> None:
    """Its profile events have chain -1 when there is none, its debug events 2**64 - 1.

    The field of a file is unsigned, so it cannot be otherwise there: reading makes it -1 again.
    """
    tracer = started(etstub)
    tracer.call("end_profiling", tracer.start(b"a", -1, 0))
    log(tracer, 1)
    assert read_log(tracer.image()).chain.tolist() == [-1, -1]
    assert read_ed00(file_of(tracer)).chain.tolist() == [-1, -1]


def test_a_delegates_event_ends_with_the_handle_it_began_with(etstub: ct.CDLL) -> None:
    """It takes the handle of the moment when the event ends."""
    tracer = started(etstub)
    tracer.call("set_chain_debug_handle", 0, 5)
    event = tracer.call("start_profiling_delegate", b"layer", -1)
    tracer.call("set_chain_debug_handle", 0, 6)
    tracer.call("end_profiling_delegate", event, None, 0)
    assert read_log(tracer.image()).instruction.tolist() == [5]


def test_the_bundled_input_index_is_written(etstub: ct.CDLL) -> None:
    """It keeps the index in one variable and writes another: always -1."""
    tracer = started(etstub)
    tracer.call("set_bundled_input_index", 3)
    tracer.call("create_event_block", b"Execute")
    blocks = read_ed00(file_of(tracer)).blocks
    assert [block.bundled_input_index for block in blocks] == [3, 3]


def test_a_block_may_hold_nothing_but_allocators(etstub: ct.CDLL) -> None:
    """Such a block with another behind it makes a file that cannot be read."""
    tracer = CTracer(etstub, 1024)
    tracer.call("create_event_block", b"Default")
    tracer.call("track_allocator", b"method")
    tracer.call("create_event_block", b"Execute")
    profile(tracer, 1)
    trace = read_ed00(file_of(tracer))
    assert [(block.name, block.count) for block in trace.blocks] == [("Default", 0), ("Execute", 1)]
    assert trace.blocks[0].allocators == ("method",)


def test_allocations_are_recorded_and_say_when_where_and_whether(etstub: ct.CDLL) -> None:
    """The runtime never reports any to it; its events have no time, place, release or failure."""
    server = server_with(etstub, relu_model([4]))
    server.run(1)
    assert np.count_nonzero(read_log(server.fetch(Region.TRACE)).kind == Kind.ALLOCATION) > 0
    tracer = started(etstub)
    tracer.call("track_allocator", b"heap")
    tracer.call("track_allocation", 1, 64, 128)
    tracer.call("track_free", 1, 64, 128)
    tracer.call("track_allocation_failure", 1, 1 << 20)
    trace = read_log(tracer.image())
    assert trace.size.tolist() == [64, -64, 1 << 20]
    assert trace.offset.tolist() == [128, 128, -1]
    assert trace.failed.tolist() == [False, False, True]
    assert np.all(np.diff(trace.start.astype(np.int64)) > 0)


def test_copying_values_takes_no_time_from_what_computed_them(etstub: ct.CDLL) -> None:
    """It copies them within the scopes of the operator and of the kernel."""
    server = server_with(etstub, relu_model([4]), debug=256)
    server.run(1, debug_level=DebugLevel.INTERMEDIATE_OUTPUTS)
    trace = read_log(server.fetch(Region.TRACE))
    names = [trace.text(int(name)) for name in trace.name]
    inner, outer = names.index("native_call_relu.out"), names.index("OPERATOR_CALL")
    intermediate, output = np.flatnonzero(trace.kind == Kind.DEBUG)
    assert trace.end[inner] < trace.end[outer] < trace.start[intermediate]
    # What is copied between operators says how long that took, the rest lies behind it all.
    execute = names.index("Method::execute")
    assert trace.start[intermediate] < trace.end[intermediate] < trace.end[execute]
    assert trace.end[execute] < trace.start[output]
    for value in logged_tensors(trace, server.fetch(Region.TRACE, 1)):
        assert value.array.tolist() == [0, 2, 0, 4]


def test_an_execution_that_fails_has_its_scope(etstub: ct.CDLL) -> None:
    """An execution that fails leaves no Method::execute behind."""
    server = server_with(etstub, relu_model([4], [5]))
    done = messages.RunEnd.parse(server.run(1)[-1].body)
    assert done.outcome.status == Status.KERNEL_FAILED
    trace = read_log(server.fetch(Region.TRACE))
    assert trace.text(int(trace.name[-1])) == "Method::execute"


def test_the_log_says_what_is_missing(etstub: ct.CDLL) -> None:
    """Its file has no place for a count of what was lost."""
    tracer = started(etstub, 64)
    profile(tracer, 10)
    log(tracer, 1)
    tracer.call("create_event_block", b"Execute")
    kept = read_log(tracer.image())
    assert kept.losses == Losses(events=10 - len(kept), values=1, blocks=1)
    assert len(tracer.image()) <= 64 + log_format.HEADER_SIZE


def test_profiling_alone_logs_no_values(etstub: ct.CDLL) -> None:
    """Dumping by its example runner also logs all intermediate values, which inflates the times."""
    server = server_with(etstub, relu_model([4]), debug=256)
    server.run(1)
    assert not np.any(read_log(server.fetch(Region.TRACE)).kind == Kind.DEBUG)
    stat = messages.StatBody(Region.TRACE, 1).encode()
    assert server.refusal(Op.STAT, stat).status == Status.BAD_REGION
