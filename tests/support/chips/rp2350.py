"""The RP2350 as its datasheet describes it, after its boot ROM, with the crystal of the Pico 2."""

from __future__ import annotations

from pathlib import Path

from unicorn import arm_const as arm

from tests.support.chips.core import Chip, Memory
from tests.support.chips.line import Line
from tests.support.chips.registers import Registers

FIFO = 32
SUBSYSTEMS = {"IO_BANK0": 6, "PADS_BANK0": 9, "PLL_SYS": 14, "TIMER0": 23, "UART0": 26}


class Rp2350(Chip):
    model = arm.UC_CPU_ARM_CORTEX_M33
    dwt = True
    memories = (Memory(0x1000_0000, 0x40_0000, False), Memory(0x2000_0000, 0x8_0000, True))
    vectors = 0x1000_0000
    irq = 33  # UART0
    crystal = 12_000_000
    regions = 0
    # SYSRESETREQ is the core's alone: clocks and subsystems stay as they are.
    kept_by_reset = (
        *("CLK_REF_CTRL", "CLK_REF_SELECTED", "CLK_SYS_CTRL", "CLK_SYS_SELECTED"),
        *("CLK_PERI_CTRL", "RESET", "RESET_DONE", "XOSC_CTRL", "XOSC_STATUS", "XOSC_STARTUP"),
        *("PLL_CS", "PLL_PWR", "PLL_FBDIV", "PLL_PRIM"),
    )

    def __init__(self, image: Path, *, seed: int = 1) -> None:
        self._raised = 0
        self._began = self._paused = self._low = 0
        self._written: int | None = None
        self.restarts = 0
        super().__init__(image, Line(FIFO), seed=seed)

    def describe(self, registers: Registers) -> None:
        at = registers.add
        # 8.1.6 clocks: reset selects clk_ref, and the ring oscillator for that
        at(0x4001_0030, "CLK_REF_CTRL", 0x63)
        at(0x4001_0038, "CLK_REF_SELECTED", 0, reset=1)
        at(0x4001_003C, "CLK_SYS_CTRL", 0xE1, write=self._system_clock)
        at(0x4001_0044, "CLK_SYS_SELECTED", 0, reset=1)
        at(0x4001_0048, "CLK_PERI_CTRL", 0xCE0, fixed=1 << 28)
        # 7.5.3 resets
        at(0x4002_0000, "RESET", 0x1FFF_FFFF, reset=0x1FFF_FFFF)
        at(0x4002_0008, "RESET_DONE", 0)
        # 9.11 pins 0 and 1
        for pin in range(2):
            at(0x4002_8004 + 8 * pin, f"GPIO{pin}_CTRL", 0x3003_F01F, reset=0x1F)
            at(0x4003_8004 + 4 * pin, f"PAD{pin}", 0x1FF, reset=0x116)
        # 8.2.8 crystal
        at(0x4004_8000, "XOSC_CTRL", 0x00FF_FFFF, write=self._crystal)
        at(0x4004_8004, "XOSC_STATUS", 0)
        at(0x4004_800C, "XOSC_STARTUP", 0x0010_3FFF)
        # 8.6.5 PLL
        at(0x4005_0000, "PLL_CS", 0x13F, fixed=0xC000_0000, reset=1, read=self._locked)
        at(0x4005_0004, "PLL_PWR", 0x2D, reset=0x2D)
        at(0x4005_0008, "PLL_FBDIV", 0xFFF)
        at(0x4005_000C, "PLL_PRIM", 0x7_7000, reset=0x7_7000)
        self._uart(registers)
        # 12.8.5 TIMER0
        at(0x400B_0000, "TIMEHW", write=self._set_timer)
        at(0x400B_0004, "TIMELW", write=self._set_low)
        at(0x400B_0028, "TIMERAWL", 0, read=self._ticks)
        at(0x400B_0030, "PAUSE", 1, write=self._pause)
        at(0x400B_0038, "SOURCE", 1)

    def _uart(self, registers: Registers) -> None:
        """Section 12.1.8."""
        at = registers.add
        at(0x4007_0000, "UARTDR", 0xFF, read=self._receive, write=self._send)
        at(0x4007_0018, "UARTFR", 0, read=self._flags)
        at(0x4007_0024, "UARTIBRD", 0xFFFF)
        at(0x4007_0028, "UARTFBRD", 63)
        at(0x4007_002C, "UARTLCR_H", 0xFF)
        at(0x4007_0030, "UARTCR", 0xFF87, reset=0x300)
        at(0x4007_0038, "UARTIMSC", 0x7FF)
        at(0x4007_0044, "UARTICR", 0x7FF, write=self._clear)

    def _on(self, name: str) -> None:
        assert self.registers["RESET_DONE"] >> SUBSYSTEMS[name] & 1, (
            f"uses {name}, which is in reset"
        )

    def _crystal(self, value: int) -> None:
        assert value == 0xFAB_AA0, f"no valid code for the crystal: {value:#x}"

    def _system_clock(self, value: int) -> None:
        if value & 1:
            self._on("PLL_SYS")
            assert self._locked(0) >> 31, "runs from a PLL that is not locked"
            assert not self.registers["PLL_PWR"] & 8, "runs from a post divider that is off"

    def _locked(self, value: int) -> int:
        running = not self.registers["PLL_PWR"] & 0x21 and self.registers["XOSC_STATUS"] >> 31
        self._on("PLL_SYS")
        return value | (1 << 31 if running else 0)

    @property
    def timer_hz(self) -> int:
        assert self.registers["SOURCE"] == 1, "counts microseconds"
        return self.core_hz()

    def core_hz(self) -> int:
        assert self.registers["CLK_SYS_SELECTED"] == 2
        assert self.registers["CLK_REF_SELECTED"] == 4
        within = self.crystal // (self.registers["PLL_CS"] & 63) * self.registers["PLL_FBDIV"]
        assert 750_000_000 <= within <= 1_600_000_000, f"the PLL cannot do {within} Hz"
        dividers = self.registers["PLL_PRIM"]
        core = within // ((dividers >> 16 & 7) * (dividers >> 12 & 7))
        assert core <= 150_000_000
        return core

    @property
    def baud(self) -> float:
        assert self.registers["CLK_PERI_CTRL"] & 0x8E0 == 0x800, "the UART has no clock"
        divider = self.registers["UARTIBRD"] + self.registers["UARTFBRD"] / 64
        return self.core_hz() / (16 * divider)

    def _ready(self) -> None:
        for name in ("IO_BANK0", "PADS_BANK0", "UART0"):
            self._on(name)
        for pin in range(2):
            assert self.registers[f"GPIO{pin}_CTRL"] & 0x1F == 2, f"GP{pin} is not the UART's"
            assert self.registers[f"PAD{pin}"] & 0x180 == 0, f"GP{pin} is isolated or has no output"
        assert self.registers["PAD1"] & 0x40, "GP1 has no input"
        assert self.registers["UARTCR"] & 0x301 == 0x301, "uses a UART that is off"
        assert self.registers["UARTLCR_H"] & 0x7F == 0x70, "not 8 bits with FIFOs"

    def _receive(self, _: int) -> int:
        self._ready()
        return self.line.receive()

    def _send(self, value: int) -> None:
        self._ready()
        self.line.send(value)

    def _flags(self, _: int) -> int:
        self._on("UART0")
        held = len(self.line.outgoing)
        empty = 0 if self.line.incoming else 1 << 4
        return empty | (1 << 5 if held == FIFO else 0) | (1 << 3 if held else 1 << 7)

    def _clear(self, value: int) -> None:
        self._raised &= ~value

    def settle(self) -> None:
        registers = self.registers
        registers["RESET_DONE"] = ~registers["RESET"] & 0x1FFF_FFFF
        if registers["XOSC_CTRL"]:
            registers["XOSC_STATUS"] = 1 << 31 | 1 << 12
        registers["CLK_REF_SELECTED"] = 1 << (registers["CLK_REF_CTRL"] & 3)
        registers["CLK_SYS_SELECTED"] = 1 << (registers["CLK_SYS_CTRL"] & 1)
        if self.line.carry() > FIFO // 2:  # the FIFO has become less than half full
            self._raised |= 1 << 5
        if registers["UARTCR"] & 1 << 9 and registers["UARTCR"] & 1 and self.line.arrive():
            self._raised |= 1 << 6  # bytes wait

    def interrupting(self) -> bool:
        return bool(self._raised & self.registers["UARTIMSC"])

    def _pause(self, value: int) -> None:
        self._on("TIMER0")
        if value:
            self._paused = self.now()
        else:
            self._began = self.now()

    def _set_low(self, value: int) -> None:
        self._on("TIMER0")
        self._written = value

    def _set_timer(self, value: int) -> None:
        assert self._written is not None, "writes the upper half first"
        assert self.registers["PAUSE"]
        self._low, self._written = self._written, None
        self.restarts += 1

    def _ticks(self, _: int) -> int:
        return self._low + self.now() - self._began
