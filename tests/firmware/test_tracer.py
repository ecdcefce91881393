"""The C tracer beside a model of it in Python: the same calls give the same log, byte for byte."""

from __future__ import annotations

import ctypes as ct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Losses, read_log
from harness.testing import device_log_format as log_format
from tests.support.examples import examples
from tests.support.tracer import CTracer, DelegateEvent, Event, Pair
from tests.support.tracer_calls import CALL
from tests.support.tracer_model import UNSET_CHAIN, Model


def test_every_way_to_log_obeys_level_and_filter(etstub: ct.CDLL) -> None:
    both = Pair(CTracer(etstub, 16384), Model(16384))
    choices = [("level", 1), ("level", 0), ("level", 1)]
    filters = [None, ([b"a", b"na*", b"*et", b"*dd*"], [3, 5]), ([], None), ([b"*"], None)]
    names = [None, b"", b"a", b"ab", b"name", b"net", b"added", b"add", b"n"]
    both.make(("block", b"Execute"))
    for chain in (UNSET_CHAIN, 0):
        both.make(("chain", chain, 1))
        for choice in [*choices, *(("filter", value) for value in filters)]:
            both.make(choice)
            for name, number in [*((name, -1) for name in names), (None, 2), (None, 3), (b"n", 5)]:
                both.make(("start", name, UNSET_CHAIN, 0))
                both.make(("end", 0))
                both.make(("start_delegate", name, number))
                both.make(("end_delegate", 0, None))
                both.make(("log_delegate", name, number, 1, 2, 3, None))
    assert both.tracer.image() == both.model.image()
    assert not both.model.full
    assert both.model.filtered > 20


def test_a_pause_leaves_blocks_out_and_counts_them(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4096)
    heap = tracer.call("track_allocator", b"heap")
    for paused, name in ((False, b"warm-up"), (True, b"left out"), (False, b"Execute")):
        tracer.call("set_paused", paused)
        tracer.call("create_event_block", name)
        tracer.call("track_allocation", heap, 64, 0)
        tracer.call("end_profiling", tracer.start(name + b" op", 0, 1))
    running = tracer.start(b"into the pause", 0, 2)
    tracer.call("set_paused", True)
    tracer.call("end_profiling", running)
    begun = tracer.start(b"out of the pause", 0, 3)
    tracer.call("set_paused", False)
    tracer.call("end_profiling", begun)
    trace = read_log(tracer.image())
    assert [block.name for block in trace.blocks] == ["warm-up", "Execute"]
    assert [trace.text(int(name)) for name in trace.name if name >= 0] == [
        "warm-up op",
        "Execute op",
        "into the pause",
    ]
    assert trace.filtered_events == 4
    assert trace.losses == Losses()


@given(
    size=st.one_of(st.integers(0, 600), st.integers(0, 4096)),
    debug=st.integers(0, 200),
    level=st.integers(0, 2),
    calls=st.lists(CALL, max_size=60),
    data=st.data(),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_calls_give_the_log_the_format_describes(
    etstub: ct.CDLL, size: int, debug: int, level: int, calls: list[tuple], data: st.DataObject
) -> None:
    tracer, model = CTracer(etstub, size, debug), Model(size, debug)
    both = Pair(tracer, model)
    for call in [("debug", level), *calls]:
        both.make(call)
    image = tracer.image()
    assert image == model.image()
    assert tracer.debug_bytes() == model.debug
    offset = data.draw(st.integers(0, len(image) + 5))
    length = data.draw(st.integers(0, len(image) + 5))
    assert tracer.read(offset, length) == image[offset : offset + length]


def test_a_full_log_keeps_a_true_prefix_and_exact_counts(etstub: ct.CDLL) -> None:
    size, pairs = 2048, 1000
    tracer = CTracer(etstub, size)
    tracer.call("create_event_block", b"Execute")
    for number in range(pairs):
        tracer.call("end_profiling", tracer.start(b"native_call_relu.out", 0, number))
    tracer.call("create_event_block", b"Execute")
    trace = read_log(tracer.image())
    kept = (size - len(b"\x07Execute\x14native_call_relu.out")) // log_format.RECORD_SIZE - 1
    assert len(trace) == kept
    assert trace.instruction.tolist() == list(range(kept))
    assert trace.losses == Losses(events=pairs - kept, blocks=1)


def test_a_name_that_does_not_fit_drops_its_event_and_all_that_follow(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 2 * log_format.RECORD_SIZE + 2)
    tracer.call("end_profiling", tracer.start(b"a", 0, 1))
    long_name = tracer.start(b"a name longer than what is left", 0, 2)
    tracer.call("end_profiling", long_name)
    tracer.call("end_profiling", tracer.start(b"a", 0, 3))
    trace = read_log(tracer.image())
    assert trace.instruction.tolist() == [1]
    assert trace.losses == Losses(events=2, blocks=0)


def test_an_index_set_after_a_dropped_block_changes_no_earlier_block(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, log_format.RECORD_SIZE + 2)
    tracer.call("create_event_block", b"a")
    tracer.call("set_bundled_input_index", 3)
    tracer.call("create_event_block", b"a")
    tracer.call("set_bundled_input_index", 4)
    assert [block.bundled_input_index for block in read_log(tracer.image()).blocks] == [3]


def test_a_delegate_event_keeps_the_handle_of_its_start(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 256)
    tracer.call("set_chain_debug_handle", 0, 5)
    event = tracer.call("start_profiling_delegate", None, 9)
    tracer.call("set_chain_debug_handle", 0, 6)
    tracer.call("end_profiling_delegate", event, None, 77)
    trace = read_log(tracer.image())
    assert trace.instruction.tolist() == [5]
    assert (trace.delegate_int.tolist(), trace.metadata_of(0)) == ([9], None)


def test_metadata_that_does_not_fit_drops_its_event_whole(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4 * log_format.RECORD_SIZE)
    for length in (17, 16, 0xFFFFFFFF):
        if length == 16:  # exactly what is left would have fitted, had nothing been dropped before
            assert len(read_log(tracer.image())) == 1
        tracer.call("log_profiling_delegate", None, 1, 0, 0, 0, b"m" * 17, ct.c_uint32(length))
    trace = read_log(tracer.image())
    assert trace.metadata_of(0) == b"m" * 17
    assert trace.losses == Losses(events=2, blocks=0)


def test_one_place_may_hold_many_names(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4096)
    place = ct.create_string_buffer(300)
    texts = [b"a", b"ab", b"a", b"", b"b", b"n" * 254, b"n" * 255, b"n" * 256, b"n" * 254, b"ab"]
    numbers = []
    for text in texts:
        place.value = text
        numbers.append(tracer.call("intern", place) & 0xFFFF)
    assert numbers == [0, 1, 0, 2, 3, 4, 5, 5, 4, 1]


def test_many_names_are_found_again_wherever_they_stand(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 1 << 17)  # more than a short distance from the end
    names = [ct.create_string_buffer(b"%d" % number + b"." * 200) for number in range(500)]
    for _ in range(3):
        assert [tracer.call("intern", name) & 0xFFFF for name in names] == list(range(500))


def test_a_filter_decides_in_a_full_log_too(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, log_format.RECORD_SIZE + 2)
    tracer.set_filter([b"keep"], None)
    for name in (b"a", b"keep", b"a"):
        tracer.call("end_profiling", tracer.start(name, 0, 1))
    trace = read_log(tracer.image())
    assert (len(trace), trace.losses.events, trace.filtered_events) == (0, 1, 2)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("tracer_init", (None, 0, None)),
        ("create_event_block", (b"a",)),
        ("set_bundled_input_index", (1,)),
        ("set_chain_debug_handle", (1, 2)),
        ("end_profiling", (Event(),)),
        ("end_profiling_delegate", (DelegateEvent(), b"a", 1)),
        ("log_profiling_delegate", (b"a", -1, 0, 1, 2, None, 0)),
        ("track_allocation", (1, 2, 3)),
        ("track_free", (1, 2, 3)),
        ("log_recycle", ()),
        ("set_debug_level", (2,)),
        ("set_when_full", (1,)),
        ("set_debug_buffer", (None, 0)),
        ("log_evalue", (1, None)),
        ("log_intermediate_output_delegate", (b"a", -1, None)),
        ("set_tracer_number", (1,)),
        ("set_stack_used", (1, 2)),
        ("set_profiling_level", (0,)),
        ("set_paused", (True,)),
        ("set_event_filter", (None,)),
        ("track_allocation_failure", (1, 2)),
    ],
)
def test_without_a_tracer_nothing_happens(etstub: ct.CDLL, function: str, arguments: tuple) -> None:
    getattr(etstub, f"etd_{function}")(None, *arguments)


def test_without_a_tracer_there_is_nothing(etstub: ct.CDLL) -> None:
    etstub.etd_start_profiling.restype = Event
    assert etstub.etd_start_profiling(None, b"a", 1, 2).start == 0
    etstub.etd_start_profiling_delegate.restype = DelegateEvent
    assert etstub.etd_start_profiling_delegate(None, b"a", -1).event.start == 0
    assert etstub.etd_intern(None, b"a") & 0xFFFF == log_format.NO_NAME
    assert etstub.etd_track_allocator(None, b"a") == 0
    assert etstub.etd_log_size(None) == 0
    assert etstub.etd_log_read(None, 0, None, 0) == 0
