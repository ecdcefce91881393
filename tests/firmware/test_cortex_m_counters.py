"""The counters of Cortex-M ports on fakes of the DWT's and the PMU's registers."""

from __future__ import annotations

import ctypes as ct
import os
import subprocess
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from harness import NO_COUNT, Trace, read_log
from tests.conftest import ROOT
from tests.firmware.test_counters import log_events
from tests.support.counters import CounterSource, start_counting
from tests.support.tracer import CTracer
from tests.support.tracer_model import TICK

# The counters of Cortex-M ports, compiled for the host, on fakes of their registers. Each access
# to a register asks the fake where it lies, so that counters move between two readings. What an
# access writes takes effect before the next one.
DEMCR: Final = 0xE000EDFC
TRCENA: Final = 1 << 24
_FIRMWARE: Final = ROOT / "firmware_stub"
_ACCESS: Final = ct.CFUNCTYPE(ct.c_void_p, ct.c_uint32)
_FAKE_HEADER: Final = """
#include "bare_metal.h"
#undef REGISTER
#define REGISTER(address) (*fake_register((uint32_t)(address)))
volatile uint32_t *(*fake_register)(uint32_t);
"""


class CounterRegisters(ABC):
    """Registers of 32 bits. They must outlive the port's use of them."""

    def __init__(self) -> None:
        self._slots: defaultdict[int, ct.c_uint32] = defaultdict(ct.c_uint32)
        self.access = _ACCESS(self._place)

    def __getitem__(self, address: int) -> int:
        return self._slots[address].value

    def __setitem__(self, address: int, value: int) -> None:
        self._slots[address].value = value

    @abstractmethod
    def step(self) -> None:
        """Let what was written take effect, and the counters count."""

    def _place(self, address: int) -> int:
        self.step()
        return ct.addressof(self._slots[address])


class ZeroRegisters(CounterRegisters):
    """All registers read 0 and ignore writes, as in QEMU 7.2."""

    def step(self) -> None:
        for slot in self._slots.values():
            slot.value = 0


class DwtRegisters(CounterRegisters):
    """Data watchpoint and trace unit (Armv7-M reference manual, C1.8).

    Each access takes ``cycles`` cycles and adds as much to every profiling counter.
    """

    CTRL: Final = 0xE0001000
    LAR: Final = 0xE0001FB0
    NOPRFCNT: Final = 1 << 24
    NOCYCCNT: Final = 1 << 25

    def __init__(self, *, lacks: int = 0, locked: bool = False, cycles: int = 100) -> None:
        super().__init__()
        self._lacks, self._locked, self._cycles = lacks, locked, cycles
        self[self.CTRL] = self._control = 4 << 28 | lacks

    def step(self) -> None:
        self._locked = self._locked and self[self.LAR] != 0xC5ACCE55
        writable = 0 if self._locked else 0x3F_0001
        if self._lacks & self.NOCYCCNT:
            writable &= ~1
        if self._lacks & self.NOPRFCNT:
            writable &= 1
        self[self.CTRL] = self._control = self._control & ~writable | self[self.CTRL] & writable
        if not self[DEMCR] & TRCENA:
            return
        for place in range(6):
            enabled = self._control >> (16 + place if place else 0) & 1
            address, bits = self.CTRL + 4 + 4 * place, 8 if place else 32
            self[address] = (self[address] + enabled * self._cycles) % 2**bits


class PmuRegisters(CounterRegisters):
    """Performance monitors (Armv8.1-M reference manual, "PMU"): event counters of 16 bits.

    Attributes:
        rates: What an access adds to a counter of an event, by the event's number.
        enabled: Bits of the counters that count.
    """

    BASE: Final = 0xE0003000
    CYCLES: Final = 31

    def __init__(self, rates: Mapping[int, int], *, counters: int = 8) -> None:
        super().__init__()
        self.rates, self._counters, self.enabled = rates, counters, 0
        self[self.BASE + 0xE00] = counters

    def event(self, place: int) -> int:
        """The event that a counter counts."""
        return self[self.BASE + 0x400 + 4 * place]

    def step(self) -> None:
        implemented = 2**self._counters - 1 | 1 << self.CYCLES
        self.enabled |= self[self.BASE + 0xC00] & implemented  # writing 0 to a bit changes nothing
        self[self.BASE + 0xC00] = self.enabled
        self[self.BASE + 0xE00] = self._counters
        if not (self[DEMCR] & TRCENA and self[self.BASE + 0xE04] & 1):
            return
        for place in (*range(self._counters), self.CYCLES):
            cycles = place == self.CYCLES
            rate = self.rates[0x11 if cycles else self.event(place)] if self._on(place) else 0
            address = self.BASE + 4 * place
            self[address] = (self[address] + rate) % (2**32 if cycles else 2**16)

    def _on(self, place: int) -> bool:
        return bool(self.enabled >> place & 1)


def build_counters(directory: Path, library: ct.CDLL, *definitions: str) -> Path:
    """Compile the ports' source for this host, on top of the device's code for it."""
    header, built = directory / "fake.h", directory / "counters.so"
    header.write_text(_FAKE_HEADER)
    compiler = os.environ.get("CC", "cc")
    port = _FIRMWARE / "ports"
    subprocess.run(
        [
            *(compiler, "-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Werror"),
            *(f"-D{name}" for name in definitions),
            *("-I", _FIRMWARE / "include", "-I", port / "bare_metal", "-include", header),
            *(port / "cortex_m" / "counters_cortex_m.c", library._name, "-o", built),
        ],
        check=True,
        timeout=600,
    )
    return built


def start_port(path: Path, registers: CounterRegisters) -> CounterSource | None:
    """Let a port find out which counters count on these registers; None if none does."""
    port = ct.CDLL(str(path))
    ct.c_void_p.in_dll(port, "fake_register").value = ct.cast(registers.access, ct.c_void_p).value
    port.port_counters.restype = ct.POINTER(CounterSource)
    found = port.port_counters()
    return found.contents if found else None


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
