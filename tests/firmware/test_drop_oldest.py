"""A full log that gives up its oldest runs for the newest."""

from __future__ import annotations

import ctypes as ct

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import Losses, Region, Trace, WhenFull, read_log
from harness.testing import device_log_format as log_format
from tests.support.c_server import CServer
from tests.support.examples import examples
from tests.support.tiny_model import relu_model
from tests.support.tracer import CTracer

SIZE = 1024
NAMES = len(b"\x07Default\x06method\x07Execute\x05layer")


def loaded(library: ct.CDLL, size: int = SIZE) -> CTracer:
    """A tracer that has logged how a method was loaded: three records."""
    tracer = CTracer(library, size)
    tracer.call("set_when_full", WhenFull.DROP_OLDEST_RUNS)
    tracer.call("create_event_block", b"Default")
    assert tracer.call("track_allocator", b"method") == 1
    tracer.call("track_allocation", 1, 640, 0)
    return tracer


def run(tracer: CTracer, number: int, events: int) -> None:
    """One run; its index and its events say which it is."""
    tracer.call("create_event_block", b"Execute")
    tracer.call("set_bundled_input_index", number)
    for instruction in range(events):
        tracer.call("end_profiling", tracer.start(b"layer", number, instruction))


def runs_of(trace: Trace) -> list[tuple[int, list[int]]]:
    """Number and instructions of every run; the first block must be that of the loading."""
    first, *runs = trace.blocks
    assert (first.name, first.allocators[0]) == ("Default", "method")
    found = []
    for block in runs:
        rows = slice(block.first, block.first + block.count)
        assert np.all(trace.chain[rows] == block.bundled_input_index)
        found.append((block.bundled_input_index, trace.instruction[rows].tolist()))
    return found


def test_the_newest_runs_stay_and_those_given_up_are_counted(etstub: ct.CDLL) -> None:
    tracer, events, total = loaded(etstub), 4, 100
    for number in range(total):
        run(tracer, number, events)
    trace = read_log(tracer.image())
    room = (SIZE - NAMES) // log_format.RECORD_SIZE - 3
    kept = room // (1 + events)
    expected = [(number, list(range(events))) for number in range(total - kept, total)]
    assert runs_of(trace) == expected
    assert trace.losses == Losses(runs=total - kept)


@given(sizes=st.lists(st.integers(0, 50), max_size=60))
@example(sizes=[0, 0, 16, 19, 20])  # the last takes one record more than any before
@settings(max_examples=examples(200), deadline=None)
def test_what_stays_are_whole_runs_and_the_last(etstub: ct.CDLL, sizes: list[int]) -> None:
    tracer = loaded(etstub)
    for number, events in enumerate(sizes):
        run(tracer, number, events)
    trace = read_log(tracer.image())
    runs = runs_of(trace)
    first = len(sizes) - len(runs)
    assert [number for number, _ in runs] == list(range(first, len(sizes)))
    assert trace.losses.runs == first
    for number, instructions in runs[:-1]:
        assert instructions == list(range(sizes[number]))
    if runs:
        logged = len(runs[-1][1])
        assert runs[-1][1] == list(range(logged))
        # When a run begins, there is room for one as long as the longest that was logged whole.
        others_cut = trace.losses.events > sizes[-1] - logged
        longer = sizes[-1] > max(sizes[:-1], default=0)
        assert logged == sizes[-1] or longer or others_cut
    room = (SIZE - NAMES) // log_format.RECORD_SIZE - 3
    assert trace.losses.events == 0 or sum(sizes) + len(sizes) > room


def test_a_run_too_large_for_the_log_is_cut_and_the_next_is_whole(etstub: ct.CDLL) -> None:
    tracer = loaded(etstub)
    run(tracer, 0, 1000)
    trace = read_log(tracer.image())
    [(_, instructions)] = runs_of(trace)
    assert trace.losses == Losses(events=1000 - len(instructions))
    run(tracer, 1, 40)
    assert runs_of(read_log(tracer.image())) == [(1, list(range(40)))]


def test_allocators_that_a_dropped_run_declared_stay(etstub: ct.CDLL) -> None:
    tracer = loaded(etstub)
    names = ("method", "late", "later")
    for number in range(50):
        run(tracer, number, 4)
        if number in (3, 20):
            tracer.call("track_allocator", names[1 + (number == 20)].encode())
        tracer.call("track_allocation", 1 + (number > 3), 8, 0)
    trace = read_log(tracer.image())
    assert trace.losses.runs > 20
    assert trace.losses.blocks == 0
    assert trace.blocks[-1].allocators == names
    assert trace.allocator[trace.allocator > 0].tolist()[-1] == 2


def test_a_log_that_is_read_in_chunks_goes_on(etstub: ct.CDLL) -> None:
    tracer = loaded(etstub)
    images = []
    for number in range(60):
        run(tracer, number, 4)
        if number in (5, 30):
            images.append(tracer.image())
            tracer.call("log_recycle")
    trace = read_log(b"".join([*images, tracer.image()]))
    numbers = [number for number, _ in runs_of(trace)]
    # Six were read before any was dropped; of the others the newest before each reading.
    assert numbers[:6] == list(range(6))
    assert len(numbers) + trace.losses.runs == 60
    assert numbers[-1] == 59
    assert 30 in numbers
    assert all(instructions == [0, 1, 2, 3] for _, instructions in runs_of(trace))


def test_a_run_asks_for_it_over_the_link(etstub: ct.CDLL) -> None:
    server = CServer(etstub, trace=2048)
    server.upload(Region.MODEL, 0, relu_model([4]))
    server.upload(Region.INPUT, 0, bytes(16))
    server.run(1, 100)
    stopped = read_log(server.fetch(Region.TRACE))
    server.run(2, 100, when_full=WhenFull.DROP_OLDEST_RUNS)
    newest = read_log(server.fetch(Region.TRACE))
    assert stopped.losses.events > 0
    assert newest.losses == Losses(runs=100 - (len(newest.blocks) - 1))
    assert newest.losses.runs > 50
    assert newest.start[-1] > stopped.start[-1]
    assert newest.blocks[0].allocators == stopped.blocks[0].allocators
