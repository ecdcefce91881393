"""The ED00 file that a device writes itself says what the host makes of the same log."""

from __future__ import annotations

import ctypes as ct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import read_ed00, read_log, write_ed00
from tests.support.device_file import device_file
from tests.support.examples import examples
from tests.support.tracer import CTracer, Pair
from tests.support.tracer_calls import CALL
from tests.support.tracer_model import Model

DEBUG = 100  # bytes of the debug buffer: some values fit


def logged(etstub: ct.CDLL, size: int, calls: list[tuple]) -> CTracer:
    both = Pair(CTracer(etstub, size, DEBUG), Model(size, DEBUG))
    for call in calls:
        both.make(call)
    return both.tracer


@given(
    size=st.integers(0, 8192),
    calls=st.lists(CALL.filter(lambda call: call[0] not in ("allocation", "free", "failure"))),
    allocations=st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**31) + 1, 2**31 - 1))),
    keep=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_device_and_the_host_write_the_same(
    etstub: ct.CDLL, size: int, calls: list, allocations: list, keep: bool
) -> None:
    # Allocations of declared allocators only: others are not for the tracer to judge.
    for position, (what, amount) in enumerate(allocations):
        call = [("allocation", 1, amount, 3), ("free", 1, amount, 3), ("failure", 1, amount)][what]
        calls.insert(3 * position, call)
    calls[:0] = [("allocator", b"method"), ("debug", 2)]
    tracer = logged(etstub, size, calls)
    expected = write_ed00(read_log(tracer.image()), allocation_events=keep)
    data = device_file(tracer, allocations=keep)
    assert data is not None
    assert read_ed00(data) == read_ed00(expected)


def test_an_empty_log_is_an_empty_file(etstub: ct.CDLL) -> None:
    assert len(read_ed00(device_file(CTracer(etstub, 0)) or b"").blocks) == 0


@pytest.mark.parametrize("limit", [0, 4, 100, 700])
def test_a_sink_that_stops_is_reported(etstub: ct.CDLL, limit: int) -> None:
    calls = [("block", b"Execute"), *[("start", b"a", 0, 1), ("end", 0)] * 20]
    assert device_file(logged(etstub, 1024, calls), limit=limit) is None


def test_without_a_tracer_there_is_no_file(etstub: ct.CDLL) -> None:
    assert etstub.etd_etdump_size(None, True) == 0
    assert etstub.etd_etdump_write(None, True, None) & 0xFF == 0
