"""The counters of Cortex-M ports, compiled for the host, on fakes of their registers.

Each access to a register asks the fake where it lies, so that counters move between two readings.
What an access writes takes effect before the next one.
"""

from __future__ import annotations

import ctypes as ct
import subprocess
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.files import data_directory
from harness.target.build import compiler_for
from tests.support.counters import CounterSource

DEMCR: Final = 0xE000EDFC
TRCENA: Final = 1 << 24
_FIRMWARE: Final = data_directory("firmware_stub")
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
    compiler, _ = compiler_for("native")
    port = _FIRMWARE / "ports"
    subprocess.run(
        [
            *(compiler, "-std=c11", "-O1", "-fPIC", "-shared", "-Wall", "-Werror"),
            *(f"-D{name}" for name in definitions),
            *("-I", _FIRMWARE / "include", "-I", port / "bare_metal", "-include", header),
            *(port / "cortex_m" / "counters_cortex_m.c", library._name, "-o", built),
        ],
        check=True,
        timeout=60,
    )
    return built


def start_port(path: Path, registers: CounterRegisters) -> CounterSource | None:
    """Let a port find out which counters count on these registers; None if none does."""
    port = ct.CDLL(str(path))
    ct.c_void_p.in_dll(port, "fake_register").value = ct.cast(registers.access, ct.c_void_p).value
    port.port_counters.restype = ct.POINTER(CounterSource)
    found = port.port_counters()
    return found.contents if found else None
