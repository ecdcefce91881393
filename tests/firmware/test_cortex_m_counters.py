"""The counters of Cortex-M ports on fakes of the DWT's and the PMU's registers."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.decode.device_log import read_log
from harness.records.trace import NO_COUNT, Trace
from tests.firmware.test_counters import log_events
from tests.support.cortex_m_registers import (
    CounterRegisters,
    DwtRegisters,
    PmuRegisters,
    ZeroRegisters,
    build_counters,
    start_port,
)
from tests.support.counters import CounterSource, start_counting
from tests.support.tracer import CTracer
from tests.support.tracer_model import TICK

DWT = ["cycles", "cpi", "exception", "sleep", "lsu", "fold"]
PMU = {
    "instret": 0x08,
    "loads": 0x06,
    "stores": 0x07,
    "branches": 0x21,
    "branches_mispredicted": 0x10,
    "exceptions": 0x09,
    "fetch_stall": 0x23,
    "backend_stall": 0x24,
    "vector_instret": 0x200,
}
"""Numbers of the events, from the Armv8.1-M reference manual."""

RATES = {0x11: 70_000, 0: 0} | {event: 13 + 1009 * at for at, event in enumerate(PMU.values())}
"""With the fastest of these an event of the log wraps its 16 bits."""


@pytest.fixture(scope="module")
def dwt(etstub: ct.CDLL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_counters(tmp_path_factory.mktemp("dwt"), etstub, "ETD_COUNTERS_DWT")


@pytest.fixture(scope="module")
def pmu(etstub: ct.CDLL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_counters(tmp_path_factory.mktemp("pmu"), etstub, "ETD_COUNTERS_PMU")


def names(source: CounterSource | None) -> list[str]:
    if source is None:
        return []
    return [source.counters[i].name.decode() for i in range(source.counter_count)]


def widths(source: CounterSource) -> list[int]:
    return [source.counters[i].bits for i in range(source.counter_count)]


def logged(library: ct.CDLL, source: CounterSource, indexes: Sequence[int]) -> Trace:
    tracer = CTracer(library, 4000)
    assert start_counting(library, tracer._state, source, indexes)
    log_events(tracer)
    return read_log(tracer.image())


def accesses(trace: Trace) -> np.ndarray:
    """How often registers were accessed in the events that have counts."""
    has = trace.counts[:, 0] != NO_COUNT
    # Each reading of the clock is one of all the counters.
    readings = (trace.end[has] - trace.start[has]).astype(np.int64) // TICK
    return readings * len(trace.counters)


def counts(trace: Trace) -> dict[str, np.ndarray]:
    has = trace.counts[:, 0] != NO_COUNT
    assert has.sum() > 5
    return {each.name: trace.counts[has, i] for i, each in enumerate(trace.counters)}


def test_the_pmu_offers_its_counters_and_their_widths(pmu: Path) -> None:
    source = start_port(pmu, PmuRegisters(RATES))
    assert source is not None
    assert names(source) == ["cycles", *PMU]
    assert widths(source) == [32] + [16] * len(PMU)
    assert source.selectable_count == 8


@pytest.mark.parametrize("first", range(1, len(PMU) + 1))
def test_the_pmu_counts_the_selected_events_in_their_order(
    etstub: ct.CDLL, pmu: Path, first: int
) -> None:
    registers = PmuRegisters(RATES)
    source = start_port(pmu, registers)
    assert source is not None
    second = first % len(PMU) + 1
    trace = logged(etstub, source, [first, 0, second])
    chosen = [list(PMU)[first - 1], list(PMU)[second - 1]]
    assert [(each.name, each.bits) for each in trace.counters] == [
        *((chosen[0], 16), ("cycles", 32), (chosen[1], 16)),
    ]
    assert [registers.event(place) for place in (0, 1)] == [PMU[name] for name in chosen]
    assert registers.enabled == 0b11 | 1 << registers.CYCLES
    found, steps = counts(trace), accesses(trace)
    for name in chosen:
        assert (found[name] == steps * RATES[PMU[name]] % 2**16).all(), name
    assert (found["cycles"] == steps * RATES[0x11]).all()


def test_sixteen_bits_of_the_pmu_wrap_and_its_cycles_do_not(etstub: ct.CDLL, pmu: Path) -> None:
    registers = PmuRegisters(RATES)
    registers[registers.BASE + 4 * registers.CYCLES] = 2**32 - 1_000_000
    source = start_port(pmu, registers)
    assert source is not None
    last = len(PMU)
    trace = logged(etstub, source, [0, last, 1])
    found, steps = counts(trace), accesses(trace)
    counted = steps * RATES[0x200]
    assert (counted >= 2**16).any()  # in one event
    assert (found["vector_instret"] == counted % 2**16).all()
    assert (found["cycles"] == steps * RATES[0x11]).all()


def test_another_selection_replaces_the_first(etstub: ct.CDLL, pmu: Path) -> None:
    registers = PmuRegisters(RATES)
    source = start_port(pmu, registers)
    assert source is not None
    logged(etstub, source, [1, 2, 3])
    trace = logged(etstub, source, [9, 0])
    assert (counts(trace)["vector_instret"] == accesses(trace) * RATES[0x200] % 2**16).all()


def test_a_pmu_with_fewer_counters_offers_its_cycles_only(pmu: Path) -> None:
    assert names(start_port(pmu, PmuRegisters(RATES, counters=4))) == ["cycles"]


@pytest.mark.parametrize(
    "registers", [ZeroRegisters(), PmuRegisters({**RATES, 0x11: 0})], ids=["zero", "still"]
)
def test_a_pmu_that_does_not_count_is_absent(pmu: Path, registers: CounterRegisters) -> None:
    assert start_port(pmu, registers) is None


@pytest.mark.parametrize(
    ("registers", "offered"),
    [
        (DwtRegisters(), DWT),
        (DwtRegisters(lacks=DwtRegisters.NOPRFCNT), DWT[:1]),
        (DwtRegisters(lacks=DwtRegisters.NOCYCCNT), []),
        (DwtRegisters(locked=True), []),
        (ZeroRegisters(), []),
    ],
    ids=["all", "no profiling", "no cycles", "locked", "zero"],
)
def test_the_dwt_offers_what_counts(
    dwt: Path, registers: CounterRegisters, offered: list[str]
) -> None:
    assert names(start_port(dwt, registers)) == offered


def test_a_locked_dwt_is_unlocked_first(etstub: ct.CDLL, tmp_path: Path) -> None:
    path = build_counters(tmp_path, etstub, "ETD_COUNTERS_DWT", "ETD_DWT_LOCKED")
    assert names(start_port(path, DwtRegisters(locked=True))) == DWT


def test_eight_bits_of_the_dwt_wrap(etstub: ct.CDLL, dwt: Path) -> None:
    registers = DwtRegisters()  # must outlive the log
    source = start_port(dwt, registers)
    assert source is not None
    trace = logged(etstub, source, [4, 0])
    assert [(each.name, each.bits) for each in trace.counters] == [("lsu", 8), ("cycles", 32)]
    found, steps = counts(trace), accesses(trace)
    assert (found["cycles"] == steps * 100).all()
    assert found["cycles"].max() >= 2**8
    assert (found["lsu"] == found["cycles"] % 2**8).all()
