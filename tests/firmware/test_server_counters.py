"""Hardware counters over the link: the list of them, and runs that read some."""

from __future__ import annotations

import ctypes as ct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import NO_COUNT, DebugLevel, Kind, Region, RunOptions, UsageError, read_log
from harness.decode.device_log import join_counts, write_counts
from harness.testing import Op, Status, messages
from tests.support.c_server import CServer
from tests.support.counters import Counters, MadeUp
from tests.support.prepared_server import prepare

OFFERED = [
    MadeUp(b"cycles", step=3),
    MadeUp(b"loads", step=2, selectable=True),
    MadeUp(b"stores", selectable=True),
    MadeUp(b"lsu", bits=8, selectable=True),
]


def server_with(library: ct.CDLL, offered: list[MadeUp], **options: int) -> CServer:
    source = Counters(library, offered, at_once=2)
    server = CServer(library, counters=source.address, **options)
    server.source = source  # type: ignore[attr-defined]  # lives as long as the server
    prepare(server)
    return server


def listed(server: CServer, first: int = 0) -> messages.CounterList:
    return messages.CounterList.parse(
        server.ask(Op.COUNTERS, messages.CountersBody(first).encode())
    )


def test_the_list_says_names_widths_and_what_counts_at_once(etstub: ct.CDLL) -> None:
    found = listed(server_with(etstub, OFFERED))
    assert (found.count, found.at_once) == (4, 2)
    assert [(each.name.encode(), each.bits, 1, each.selectable) for each in found.counters] == [
        each._replace(step=1) for each in OFFERED
    ]
    assert listed(CServer(etstub)) == messages.CounterList()


def test_a_long_list_comes_in_parts(etstub: ct.CDLL) -> None:
    offered = [MadeUp(f"a counter with a long name {i}".encode()) for i in range(40)]
    server = server_with(etstub, offered)
    first = listed(server)
    assert 0 < len(first.counters) < first.count == 40
    rest = listed(server, len(first.counters))
    assert rest.counters[0].name == f"a counter with a long name {len(first.counters)}"
    assert listed(server, 40).counters == ()
    assert listed(server, 255).counters == ()


@pytest.mark.parametrize("bundled", [-1, 5])
def test_a_run_logs_the_counters_it_selects(etstub: ct.CDLL, bundled: int) -> None:
    server = server_with(etstub, OFFERED)
    server.run(1, 2, counters=(3, 0), bundled_input=bundled)
    trace = read_log(server.fetch(Region.TRACE))
    assert [(counter.name, counter.bits) for counter in trace.counters] == [
        ("lsu", 8),
        ("cycles", 32),
    ]
    assert {block.bundled_input_index for block in trace.blocks} == {bundled}
    profiled = trace.kind == Kind.PROFILE
    assert (trace.counts[profiled] > 0).all()
    assert (trace.counts[~profiled] == NO_COUNT).all()
    server.run(2)
    assert read_log(server.fetch(Region.TRACE)).counters == ()


def test_a_streamed_run_has_its_counters_once(etstub: ct.CDLL) -> None:
    server = server_with(etstub, OFFERED, trace=2048)
    server.run(1, 20, counters=(0, 1), stream=True)
    whole = b"".join(server.chunks.whole())
    trace = read_log(whole)
    assert len(server.chunks.whole()) > 2
    assert [counter.name for counter in trace.counters] == ["cycles", "loads"]
    profiled = trace.kind == Kind.PROFILE
    assert (trace.counts[profiled] > 0).all()


@pytest.mark.parametrize("counters", [(1, 2, 3), (0, 0), (4,), tuple(range(9))])
def test_counters_that_cannot_count_at_once_are_refused(
    etstub: ct.CDLL, counters: tuple[int, ...]
) -> None:
    server = server_with(etstub, OFFERED)
    body = messages.RunBody(1, 1, RunOptions(counters=counters)).encode()
    refusal = server.refusal(Op.RUN, body)
    assert (refusal.status, refusal.detail) == (Status.BAD_REQUEST, len(counters))
    assert refusal.message == "these counters cannot count at once"
    assert server.restarts == 0


def test_a_port_without_counters_refuses_them(etstub: ct.CDLL) -> None:
    server = CServer(etstub)
    prepare(server)
    body = messages.RunBody(1, 1, RunOptions(counters=(0,))).encode()
    assert server.refusal(Op.RUN, body).status == Status.BAD_REQUEST


def test_counting_and_logged_values_go_together(etstub: ct.CDLL) -> None:
    server = server_with(etstub, OFFERED, debug=4096)
    server.run(1, 2, counters=(0,), debug_level=DebugLevel.INTERMEDIATE_OUTPUTS)
    trace = read_log(server.fetch(Region.TRACE))
    values = trace.kind == Kind.DEBUG
    assert values.any()
    assert (trace.counts[values] == NO_COUNT).all()


def test_names_are_checked_before_a_run(etstub: ct.CDLL) -> None:
    offered = listed(server_with(etstub, OFFERED))
    assert offered.numbers(["lsu", "cycles"]) == (3, 0)
    with pytest.raises(UsageError) as unknown:
        offered.check(["cycle"], "board")
    assert "board has no hardware counter 'cycle'" in unknown.value.message
    assert "cycles" in (unknown.value.hint or "")
    assert "loads, stores, lsu" in (unknown.value.hint or "")
    with pytest.raises(UsageError, match="named 2 times"):
        offered.check(["lsu", "lsu"], "board")
    with pytest.raises(UsageError, match="no hardware counter"):
        messages.CounterList().check(["cycles"], "board")
    offered.check_at_once(["cycles", "loads", "lsu"], "board")
    with pytest.raises(UsageError) as many:
        offered.check_at_once(["cycles", "loads", "stores", "lsu"], "board")
    assert "2 of them selectable" in many.value.message
    assert "--counter-passes" in (many.value.hint or "")


@pytest.mark.parametrize("stream", [False, True])
def test_passes_are_joined_into_the_log_of_the_first(etstub: ct.CDLL, stream: bool) -> None:
    server = server_with(etstub, OFFERED, trace=2048 if stream else 32_768)

    def measure(run_id: int, *counters: int) -> bytes:
        server.run(run_id, 20, counters=counters, stream=stream)
        return b"".join(server.chunks.whole()) if stream else server.fetch(Region.TRACE)

    image, other = measure(1, 0, 1, 2), measure(2, 0, 3, 1)
    first, second = read_log(image), read_log(other)
    # A streamed log is cut where its buffer was half full, so not after the same events.
    joined = join_counts(first, [second])
    trace = read_log(write_counts(image, joined))
    assert [counter.name for counter in trace.counters] == ["cycles", "loads", "stores", "lsu"]
    assert [counter.overhead for counter in trace.counters[:3]] == [
        counter.overhead for counter in first.counters
    ]
    has = trace.counts[:, 0] != NO_COUNT
    both = min(int((each.counts[:, 0] != NO_COUNT).sum()) for each in (first, second))
    assert has.sum() == both > 20
    assert joined.unmatched == int((first.counts[:, 0] != NO_COUNT).sum()) - both
    assert (trace.counts[has, :3] == first.counts[has]).all()
    if not stream:
        lsu = [counter.name for counter in second.counters].index("lsu")
        assert (trace.counts[has, 3] == second.counts[has, lsu]).all()
    # All else is what it was, but for the numbers of records.
    for column in ("kind", "chain", "instruction", "clock", "start", "end", "allocator", "size"):
        assert (getattr(trace, column) == getattr(first, column)).all(), column
    assert [trace.text(int(n)) for n in trace.name] == [first.text(int(n)) for n in first.name]
    assert (trace.blocks, trace.losses) == (first.blocks, first.losses)


def test_passes_are_few_and_name_every_counter_once(etstub: ct.CDLL) -> None:
    offered = listed(server_with(etstub, OFFERED))
    names = ["loads", "cycles", "stores", "lsu"]
    # Each has the counter that takes no selectable one, and as many counters as the first.
    assert offered.passes(names) == [("loads", "cycles", "stores"), ("loads", "cycles", "lsu")]
    assert offered.passes(["loads", "lsu"]) == [("loads", "lsu")]
    assert offered.passes([]) == []


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 8), st.randoms())
def test_any_counters_are_measured_in_passes_that_the_device_accepts(
    selectable: list[bool], at_once: int, random: Random
) -> None:
    counters = tuple(messages.OfferedCounter(32, each, str(i)) for i, each in enumerate(selectable))
    offered = messages.CounterList(len(counters), at_once, counters)
    names = [counter.name for counter in counters]
    random.shuffle(names)
    passes = offered.passes(names)
    assert {name for each in passes for name in each} == set(names)
    for each in passes:
        offered.check(each, "board")
        offered.check_at_once(each, "board")
    assert len({len(each) for each in passes}) == 1
    common = set(passes[0]).intersection(*passes)
    assert common or all(selectable)
