"""Counts in the metadata of delegates' events: layouts, and the columns they become."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import EXECUTION, NO_COUNT, HardwareCounter, Trace, UsageError
from harness.analyze.converters import LAYOUTS, parse_layouts, with_metadata_counts
from harness.strategies import EventSpec, RunSpec, trace_of

ETHOS_U = struct.Struct("<Q4I")


def delegated(*metadata: bytes | None, **given: object) -> Trace:
    """An execution of one delegate's events with this metadata, numbered from 0."""
    events = [
        EventSpec("npu", 10 * i, 10 * i + 5, delegate=i, metadata=each)
        for i, each in enumerate(metadata)
    ]
    return trace_of(RunSpec([*events, EventSpec(EXECUTION, 0, 1000, chain=-1)]), **given)


def column(trace: Trace, name: str) -> list[int]:
    place = [counter.name for counter in trace.counters].index(name)
    return trace.counts[:, place].tolist()


def test_the_counters_of_an_ethos_u_are_columns() -> None:
    logged = [ETHOS_U.pack(2**40 + 7, 1, 0, 3, 2**32 - 1), ETHOS_U.pack(9, 5, 6, 7, 8)]
    trace = with_metadata_counts(delegated(*logged), parse_layouts({"*": "ethos-u"}))
    names = ["ethosu_cycles", *(f"ethosu_event{i}" for i in range(4))]
    assert [(each.name, each.bits) for each in trace.counters] == [
        (name, 63 if name == "ethosu_cycles" else 32) for name in names
    ]
    assert trace.counts[:2].tolist() == [[2**40 + 7, 1, 0, 3, 2**32 - 1], [9, 5, 6, 7, 8]]
    assert trace.counts[2].tolist() == [NO_COUNT] * 5
    # The metadata itself stays.
    assert trace.metadata_of(0) == logged[0]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1)), min_size=1))
def test_counts_are_what_was_logged(values: list[tuple[int, int]]) -> None:
    packed = [struct.pack("<QIH", *pair, 99) for pair in values]  # the rest means nothing here
    trace = with_metadata_counts(delegated(*packed), parse_layouts({"npu": "a:u64, b:u32"}))
    assert column(trace, "a") == [*(a for a, _ in values), NO_COUNT]
    assert column(trace, "b") == [*(b for _, b in values), NO_COUNT]


def test_counts_that_are_not_there_are_missing() -> None:
    logged = [bytes(7), bytes(8), bytes(11), b"\xff" * 12, b"", None]
    trace = with_metadata_counts(delegated(*logged), parse_layouts({"*": "a:u64, b:u32"}))
    # The fourth is larger than a count can be.
    assert column(trace, "a") == [NO_COUNT, 0, 0, NO_COUNT, NO_COUNT, NO_COUNT, NO_COUNT]
    assert column(trace, "b") == [NO_COUNT, NO_COUNT, NO_COUNT, 2**32 - 1, *[NO_COUNT] * 3]


def test_the_first_layout_that_matches_an_event_applies() -> None:
    trace = delegated(b"\1\2", b"\3\4", counters=[HardwareCounter("cycles")])
    found = with_metadata_counts(trace, parse_layouts({"re:[1-9]": "y:u8", "*": "x:u8, y:u8"}))
    assert [counter.name for counter in found.counters] == ["cycles", "y", "x"]
    assert column(found, "y") == [2, 3, NO_COUNT]
    assert column(found, "x") == [1, NO_COUNT, NO_COUNT]
    assert column(found, "cycles") == [NO_COUNT] * 3


def test_a_backend_is_a_pattern_where_the_program_is_known() -> None:
    layouts = parse_layouts({"EthosUBackend": LAYOUTS["ethos-u85"]})
    trace = delegated(struct.pack("<Q8I", *range(9)))
    assert with_metadata_counts(trace, layouts) == trace
    place = (int(trace.chain[0]), int(trace.instruction[0]))
    found = with_metadata_counts(trace, layouts, {place: "EthosUBackend"})
    assert found.counts[0].tolist() == list(range(9))


@pytest.mark.parametrize("text", ["", "a", "a:u12", "a:u8 b:u8", "a:u8, a:u8", "ethos-u99"])
def test_an_invalid_layout_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"metadata of 'npu\*': invalid layout") as caught:
        parse_layouts({"npu*": text})
    assert "ethos-u" in (caught.value.hint or "")


def test_a_counter_of_the_core_keeps_its_name() -> None:
    trace = delegated(bytes(8), counters=[HardwareCounter("cycles")])
    with pytest.raises(UsageError, match="the core has a counter cycles, too") as caught:
        with_metadata_counts(trace, parse_layouts({"*": "cycles:u64"}))
    assert "npu_cycles" in (caught.value.hint or "")
