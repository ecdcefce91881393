"""The STM32H743 as RM0433 describes it, on a board whose debugger gives it 8 MHz."""

from __future__ import annotations

from pathlib import Path

from unicorn import arm_const as arm

from tests.support.chips.core import Chip, Memory
from tests.support.chips.line import Line
from tests.support.chips.registers import Registers
from tests.support.chips.stm32 import StTimer

HSE = 8_000_000
FIFO = 16
REVISION_Y, REVISION_V = 0x1003_6450, 0x2003_6450


class Stm32H743(Chip):
    """``revision`` is what DBGMCU says."""

    model = arm.UC_CPU_ARM_CORTEX_M7
    dwt = True
    memories = (
        Memory(0x0800_0000, 0x20_0000, False),
        Memory(0x2000_0000, 0x2_0000, True),
        Memory(0x2400_0000, 0x8_0000, True),
    )
    vectors = 0x0800_0000
    irq = 39  # RM0433 table 150: USART3
    regions = 16

    def __init__(self, image: Path, *, seed: int = 1, revision: int = REVISION_V) -> None:
        self.revision = revision
        self.timer = StTimer(self)
        self.cleaned: set[int] = set()
        super().__init__(image, Line(FIFO), seed=seed)

    def describe(self, registers: Registers) -> None:
        at = registers.add
        # 6.8 PWR
        at(0x5802_4804, "PWR_CSR1", 0, reset=0x4000)
        at(0x5802_480C, "PWR_CR3", 0x0307, reset=6, write=self._supply)
        at(0x5802_4818, "PWR_D3CR", 0xC000, fixed=0x2000, reset=0x4000, write=self._scale)
        # 4.9 FLASH
        at(0x5200_2000, "FLASH_ACR", 0x3F, reset=0x37)
        # 8.7 RCC
        at(0x5802_4400, "RCC_CR", 0x150D_129B, fixed=0x2A02_C164, reset=3, write=self._oscillators)
        at(0x5802_4410, "RCC_CFGR", 0xFFFF_FFC7, fixed=0x38, write=self._switch)
        at(0x5802_4418, "RCC_D1CFGR", 0xF7F)
        at(0x5802_441C, "RCC_D2CFGR", 0x770)
        at(0x5802_4420, "RCC_D3CFGR", 0x70)
        at(0x5802_4428, "RCC_PLLCKSELR", 0x03F3_F3F3, reset=0x0202_0200, write=self._pll)
        at(0x5802_442C, "RCC_PLLCFGR", 0x01FF_0FFF, reset=0x01FF_0000, write=self._pll)
        at(0x5802_4430, "RCC_PLL1DIVR", 0x7F7F_FFFF, reset=0x0101_0280, write=self._pll)
        at(
            0x5802_44D0,
            "RCC_RSR",
            0x0001_0000,
            fixed=0x55FE_0000,
            reset=0x00FE_0000,
            write=self._flags,
        )
        at(0x5802_44E0, "RCC_AHB4ENR", 0x132F_07FF)
        at(0x5802_44E8, "RCC_APB1LENR", 0xE8FF_C3FF)
        # 11.4 GPIOD
        at(0x5802_0C00, "GPIOD_MODER", reset=0xFFFF_FFFF)
        at(0x5802_0C0C, "GPIOD_PUPDR")
        at(0x5802_0C24, "GPIOD_AFRH")
        # 48.7 USART3
        at(0x4000_4800, "USART_CR1", write=self._control)
        at(0x4000_480C, "USART_BRR", 0xFFFF, write=self._rate)
        at(0x4000_481C, "USART_ISR", 0, read=self._state)
        at(0x4000_4820, "USART_ICR", 0x0012_3BFF)
        at(0x4000_4824, "USART_RDR", 0, read=self._receive)
        at(0x4000_4828, "USART_TDR", 0x1FF, write=self._send)
        self.timer.describe(registers)
        # 60.5.8, and ES0392 2.2.9
        at(0x5C00_1000, "DBGMCU_IDC", 0, read=lambda _: self.revision)
        at(0x5100_8108, "AXI_TARG7_FN_MOD", 3)
        # The core's caches: 16 KiB of four ways, lines of 32 bytes
        at(0xE000_ED14, "CCR", 0x0007_031B, write=self._cache)
        at(0xE000_ED80, "CCSIDR", 0, read=lambda _: 127 << 13 | 3 << 3 | 1)
        at(0xE000_ED84, "CSSELR", 15)
        at(0xE000_EF50, "ICIALLU")
        at(0xE000_EF60, "DCISW", write=self.cleaned.add)

    def _supply(self, value: int) -> None:
        assert value & 7 == 2, "the board has the regulator, and nothing else"
        self.registers["PWR_CSR1"] = 1 << 13 | 1 << 14

    def _scale(self, value: int) -> None:
        assert self.registers["PWR_CSR1"] & 1 << 13, "changes the voltage before the supply is told"
        self.registers["PWR_D3CR"] |= 1 << 13

    def _oscillators(self, _: int) -> None:
        value = self.registers["RCC_CR"] & ~0x0202_0000
        if value & 1 << 16:
            assert value & 1 << 18, "starts a crystal where the board has none"
            value |= 1 << 17
        if value & 1 << 24:
            assert value & 1 << 17, "starts the PLL before its source is ready"
            value |= 1 << 25
        self.registers["RCC_CR"] = value

    def _pll(self, _: int) -> None:
        assert not self.registers["RCC_CR"] & 1 << 24, "changes a PLL that is on"

    def _switch(self, value: int) -> None:
        source = value & 7
        assert source == 3, "switches to something else than PLL1"
        assert self.registers["RCC_CR"] & 1 << 25, "switches to a PLL that is not ready"
        self.registers["RCC_CFGR"] = self.registers["RCC_CFGR"] & ~0x38 | source << 3
        # Table 17: scale 1 takes an AXI clock of 210 MHz with two wait states and a delay of 2.
        assert self.registers["PWR_D3CR"] >> 13 == 7, "runs fast before the voltage is there"
        assert self.registers["FLASH_ACR"] == 0x22
        assert self._core_hz() <= 400_000_000
        assert self._bus_hz() <= 200_000_000
        assert self._peripheral_hz("RCC_D1CFGR", 4) <= 100_000_000
        assert self._peripheral_hz("RCC_D2CFGR", 4) <= 100_000_000
        assert self._peripheral_hz("RCC_D2CFGR", 8) <= 100_000_000
        assert self._peripheral_hz("RCC_D3CFGR", 4) <= 100_000_000

    def _core_hz(self) -> int:
        assert self.registers["RCC_PLLCKSELR"] & 3 == 2
        entering = HSE // (self.registers["RCC_PLLCKSELR"] >> 4 & 63)
        range_, wide = self.registers["RCC_PLLCFGR"] >> 2 & 3, not self.registers["RCC_PLLCFGR"] & 2
        assert 1_000_000 << range_ <= entering <= 2_000_000 << range_
        assert wide
        assert self.registers["RCC_PLLCFGR"] & 1 << 16, "the PLL has no output P"
        divisors = self.registers["RCC_PLL1DIVR"]
        within = entering * ((divisors & 0x1FF) + 1)
        assert 192_000_000 <= within <= 836_000_000
        assert self.registers["RCC_D1CFGR"] >> 8 == 0
        return within // ((divisors >> 9 & 127) + 1)

    def _bus_hz(self) -> int:
        assert self.registers["RCC_D1CFGR"] & 15 == 8
        return self._core_hz() // 2

    def _peripheral_hz(self, name: str, shift: int) -> int:
        divider = self.registers[name] >> shift & 7
        return self._bus_hz() >> (divider - 3 if divider >= 4 else 0)

    @property
    def timer_hz(self) -> int:
        return 2 * self._peripheral_hz("RCC_D2CFGR", 4)

    @property
    def restarts(self) -> int:
        return self.timer.restarts

    @property
    def baud(self) -> float:
        return self._peripheral_hz("RCC_D2CFGR", 4) / self.registers["USART_BRR"]

    def _flags(self, value: int) -> None:
        if value & 1 << 16:
            self.registers["RCC_RSR"] = 0

    def _cache(self, value: int) -> None:
        if value & 1 << 16:
            lines = {way << 30 | index << 5 for way in range(4) for index in range(128)}
            assert self.cleaned == lines, "uses a data cache of which lines may hold anything"

    def _ready(self) -> None:
        enabled = self.registers["RCC_APB1LENR"] & 1 << 18 and self.registers["RCC_AHB4ENR"] & 8
        assert enabled, "uses a UART whose clock or pins are off"
        assert self.registers["GPIOD_MODER"] >> 16 & 15 == 0b1010, "PD8 and PD9 are not the UART's"
        assert self.registers["GPIOD_AFRH"] & 0xFF == 0x77, "PD8 and PD9 have another function"
        assert self.registers["USART_CR1"] & 0x2000_000D == 0x2000_000D, "uses a UART that is off"

    def _control(self, value: int) -> None:
        assert not value & ~0x2000_00AD, f"sets {value:#x} in CR1"

    def _rate(self, _: int) -> None:
        assert not self.registers["USART_CR1"] & 1, "changes the rate of a UART that is on"

    def _state(self, _: int) -> int:
        held = len(self.line.outgoing)
        received = 0x20 if self.line.incoming else 0
        return received | (0 if held == FIFO else 0x80) | (0 if held else 0x40)

    def _receive(self, _: int) -> int:
        self._ready()
        byte = self.line.receive()
        self.line.arrive()
        return byte

    def _send(self, value: int) -> None:
        self._ready()
        self.line.send(value)

    def settle(self) -> None:
        self.line.carry()
        if self.registers["USART_CR1"] & 4:  # RE
            self.line.arrive()

    def interrupting(self) -> bool:
        control = self.registers["USART_CR1"]
        received = control & 1 << 5 and self.line.incoming
        return bool(received or (control & 1 << 7 and len(self.line.outgoing) < FIFO))

    def after_reset(self) -> None:
        self.cleaned.clear()
        self.registers["RCC_RSR"] = 0x0140_0000  # 8.7.39: software, and the pin that it pulls
