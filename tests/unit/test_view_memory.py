"""Memory over time, from what a runtime logs about it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from harness import Block, ClockDomain, Kind, Subject, Trace, read_log
from tests.support.logs import CompactLog

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)


def gaps_of(found: Any) -> tuple[int, int, int]:
    """All bytes of free memory between pieces, the most at once, and the number of gaps."""
    return found.bytes, found.largest, found.count


def run() -> Trace:
    """A method with planned memory and two runs of a delegate that takes temporary pieces."""
    log = CompactLog().block("Default").allocator("method").allocator("planned_1")
    log.allocation(1, 100, tick=1, offset=0).allocation(1, 60, tick=2, offset=112)
    log.allocation(2, 4096, tick=3, offset=0).allocator("temporary")
    log.profile("Method::init", 0, 5, chain=-1)
    for begin in (10, 50):
        log.block("Execute")
        log.allocation(3, 30, tick=begin + 2, offset=0).allocation(3, 50, tick=begin + 3, offset=32)
        log.allocation(3, 9000, tick=begin + 4, failed=True)
        log.allocation(3, -80, tick=begin + 5, offset=0)
        log.profile("DELEGATE_CALL", begin + 1, begin + 9)
        log.profile("Method::execute", begin, begin + 12, chain=-1)
    return read_log(log.image(), [CPU])


def test_each_allocator_is_followed_to_its_peak() -> None:
    found = Subject(run(), planned={"temporary": 128}).memory
    method, planned, temporary = found.allocators
    assert [item.allocator.name for item in found.allocators] == [
        "method",
        "planned_1",
        "temporary",
    ]
    assert (method.live.tolist(), method.ticks.tolist()) == ([100, 160], [1, 2])
    assert (method.peak, method.reach, method.planned) == (160, 172, None)
    assert gaps_of(method.peak_gaps) == (12, 12, 1)
    assert planned.peak_row == 2
    assert temporary.live.tolist() == [30, 80, 80, 0] * 2
    assert (temporary.peak, temporary.reach, temporary.planned) == (80, 82, 128)
    assert temporary.ticks.tolist() == [12, 13, 14, 15, 52, 53, 54, 55]


def test_what_was_live_at_the_peak_says_when_it_was_taken_and_freed() -> None:
    trace = run()
    found = Subject(trace).memory
    assert (found.peak, found.peak_row) == (100 + 60 + 4096 + 80, 5)
    assert [(piece.allocator.name, piece.size, piece.offset) for piece in found.peak_pieces] == [
        ("method", 100, 0),
        ("method", 60, 112),
        ("planned_1", 4096, 0),
        ("temporary", 30, 0),
        ("temporary", 50, 32),
    ]
    names = [trace.text(trace.name[piece.during]) for piece in found.peak_pieces]
    assert names == ["Method::init"] * 3 + ["DELEGATE_CALL"] * 2
    # One record gives back all temporary pieces.
    assert [piece.freed for piece in found.peak_pieces] == [-1, -1, -1, 7, 7]
    assert found.live.tolist()[-1] == 4256
    assert not any(item.unmatched or item.overlapping for item in found.allocators)


def test_failures_say_what_was_free_when_they_happened() -> None:
    failures = Subject(run()).memory.allocators[2].failures
    assert [(item.piece.size, item.live) for item in failures] == [(9000, 80)] * 2
    assert gaps_of(failures[0].gaps) == (2, 2, 1)
    assert failures[0].piece.during == 8


def test_fragmentation_is_what_the_largest_gap_has_not() -> None:
    (heap,) = Subject(one_allocator((10, 0), (10, 30), (5, 45), (5, 20))).memory.allocators
    assert gaps_of(heap.peak_gaps) == (20, 10, 3)
    assert heap.peak_gaps.fragmentation == 0.5
    (heap,) = Subject(one_allocator((50, 0), (5, 10), (60, 20))).memory.allocators
    assert gaps_of(heap.peak_gaps) == (0, 0, 0)
    assert heap.peak_gaps.fragmentation == 0


def one_allocator(*events: tuple[int, int]) -> Trace:
    """Allocations of (size, offset); a negative size is a free."""
    trace = Trace.unset(
        len(events), blocks=[Block("", 0, len(events), allocators=("heap",))], clocks=[CPU]
    )
    trace.kind[:], trace.allocator[:] = Kind.ALLOCATION, 1
    trace.size[:] = [size for size, _ in events]
    trace.offset[:] = [offset for _, offset in events]
    return trace.sealed()


def test_frees_find_their_pieces_by_place_or_else_by_size() -> None:
    trace = one_allocator((10, 0), (10, 16), (10, -1), (20, 32), (-10, 0), (-10, -1), (-20, -1))
    (heap,) = Subject(trace).memory.allocators
    assert heap.unmatched == ()
    assert heap.peak == 50
    freed = {piece.row: piece.freed for piece in heap.peak_pieces}
    assert freed == {0: 4, 1: -1, 2: 5, 3: 6}
    assert heap.reach is None, "of one piece nobody knows where it was"
    assert heap.ticks.tolist() == [-1] * 7


@pytest.mark.parametrize("free", [(-5, 0), (-10, 100), (-25, -1)])
def test_a_free_of_what_is_not_there_is_listed_and_counted(free: tuple[int, int]) -> None:
    (heap,) = Subject(one_allocator((10, 0), (20, 16), free)).memory.allocators
    assert heap.unmatched == (2,)
    assert heap.live.tolist() == [10, 30, 30 + free[0]]


def test_pieces_that_overlap_are_listed() -> None:
    (heap,) = Subject(
        one_allocator((16, 0), (16, 8), (-16, 0), (-16, 8), (16, 0))
    ).memory.allocators
    assert heap.overlapping == (1,)
    assert heap.peak == 32


def test_tracers_are_put_together_in_time() -> None:
    images = []
    for number, ticks in enumerate(((10, 30), (20, 40))):
        log = CompactLog()
        log.tracer = number
        log.block("Execute").allocator("heap")
        log.allocation(1, 100, tick=ticks[0], offset=0).allocation(1, -100, tick=ticks[1], offset=0)
        images.append(log.image())
    found = Subject(read_log(b"".join(images), [CPU])).memory
    assert found.rows.tolist() == [0, 2, 1, 3]
    assert found.live.tolist() == [100, 200, 100, 0]
    assert found.peak == found.allocators[0].peak == 200


def test_without_allocations_there_is_nothing() -> None:
    found = Subject(Trace.unset(0)).memory
    assert (found.peak, found.peak_row, found.peak_pieces, found.allocators) == (0, -1, (), ())
