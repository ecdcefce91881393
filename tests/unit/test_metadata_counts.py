"""Counts in the metadata of delegates' events: layouts, and the columns they become."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import harness
from harness import EXECUTION, NO_COUNT, DelegateCall, Model, Trace, UsageError
from harness.runs.directory import RunDirectory
from harness.strategies import DeviceLog
from tests.support.examples import examples
from tests.support.reported import FINISHED
from tests.support.results import TARGET

ETHOS_U = struct.Struct("<Q4I")


def delegated(*metadata: bytes | None, counter: str = "") -> bytes:
    """The log of an execution of one delegate's events with this metadata, numbered from 0."""
    log = DeviceLog()
    if counter:
        log.counter(counter)
    log.block("Execute")
    for number, each in enumerate(metadata):
        log.delegate(None, number, each).profile("npu", 10 * number, 10 * number + 5)
    return log.profile(EXECUTION, 0, 1000, chain=-1).image()


def loaded(log: bytes, layouts: dict[str, str]) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.etlog"
        file.write_bytes(log)
        trace = harness.load(file, metadata=layouts).trace
    assert trace is not None
    return trace


def column(trace: Trace, name: str) -> list[int]:
    place = [counter.name for counter in trace.counters].index(name)
    return trace.counts[:, place].tolist()


def test_the_counters_of_an_ethos_u_are_columns() -> None:
    logged = [ETHOS_U.pack(2**40 + 7, 1, 0, 3, 2**32 - 1), ETHOS_U.pack(9, 5, 6, 7, 8)]
    trace = loaded(delegated(*logged), {"*": "ethos-u"})
    names = ["ethosu_cycles", *(f"ethosu_event{i}" for i in range(4))]
    assert [(each.name, each.bits) for each in trace.counters] == [
        (name, 63 if name == "ethosu_cycles" else 32) for name in names
    ]
    assert trace.counts[:2].tolist() == [[2**40 + 7, 1, 0, 3, 2**32 - 1], [9, 5, 6, 7, 8]]
    assert trace.counts[2].tolist() == [NO_COUNT] * 5
    # The metadata itself stays.
    assert trace.metadata_of(0) == logged[0]


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1)), min_size=1, max_size=20
    )
)
def test_counts_are_what_was_logged(values: list[tuple[int, int]]) -> None:
    packed = [struct.pack("<QIH", *pair, 99) for pair in values]  # the rest means nothing here
    trace = loaded(delegated(*packed), {"npu": "a:u64, b:u32"})
    assert column(trace, "a") == [*(a for a, _ in values), NO_COUNT]
    assert column(trace, "b") == [*(b for _, b in values), NO_COUNT]


def test_counts_that_are_not_there_are_missing() -> None:
    logged = [bytes(7), bytes(8), bytes(11), b"\xff" * 12, b"", None]
    trace = loaded(delegated(*logged), {"*": "a:u64, b:u32"})
    # The fourth is larger than a count can be.
    assert column(trace, "a") == [NO_COUNT, 0, 0, NO_COUNT, NO_COUNT, NO_COUNT, NO_COUNT]
    assert column(trace, "b") == [NO_COUNT, NO_COUNT, NO_COUNT, 2**32 - 1, *[NO_COUNT] * 3]


def test_the_first_layout_that_matches_an_event_applies() -> None:
    log = delegated(b"\1\2", b"\3\4", counter="cycles")
    found = loaded(log, {"re:[1-9]": "y:u8", "*": "x:u8, y:u8"})
    assert [counter.name for counter in found.counters] == ["cycles", "y", "x"]
    assert column(found, "y") == [2, 3, NO_COUNT]
    assert column(found, "x") == [1, NO_COUNT, NO_COUNT]
    assert column(found, "cycles") == [NO_COUNT] * 3


def test_a_backend_is_a_pattern_where_the_program_is_known(tmp_path: Path) -> None:
    layouts = {"EthosUBackend": "ethos-u85"}
    log = delegated(struct.pack("<Q8I", *range(9)))
    assert loaded(log, layouts).counters == ()
    call = DelegateCall(0, 0, "EthosUBackend")
    model = Model("net.pte", "ab", 10, 20, 30, (), (), delegates=(call,))
    directory = RunDirectory.create(tmp_path)
    directory.write("trace.etlog", log)
    directory.finish(replace(FINISHED, model=model, target=TARGET))
    found = harness.load(tmp_path, metadata=layouts).trace
    assert found is not None
    assert found.counts[0].tolist() == list(range(9))


@pytest.mark.parametrize("text", ["", "a", "a:u12", "a:u8 b:u8", "a:u8, a:u8", "ethos-u99"])
def test_an_invalid_layout_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"metadata of 'npu\*': invalid layout") as caught:
        loaded(delegated(b"\1"), {"npu*": text})
    assert "ethos-u" in (caught.value.hint or "")


def test_a_counter_of_the_core_keeps_its_name() -> None:
    with pytest.raises(UsageError, match="the core has a counter cycles, too") as caught:
        loaded(delegated(bytes(8), counter="cycles"), {"*": "cycles:u64"})
    assert "npu_cycles" in (caught.value.hint or "")
