"""The STM32F446 as RM0390 describes it, on a board whose debugger gives it 8 MHz."""

from __future__ import annotations

from pathlib import Path

from unicorn import arm_const as arm

from tests.support.chips.core import Chip, Memory
from tests.support.chips.line import Line
from tests.support.chips.registers import Registers
from tests.support.chips.stm32 import StTimer

HSE = 8_000_000


class Stm32F446(Chip):
    """The chip.

    Attributes:
        overrun: ORE, which a byte sets that finds the one before unread.
        lose_next: Whether to lose the last byte of a frame this way, between the reads of state
            and data.
    """

    model = arm.UC_CPU_ARM_CORTEX_M4
    dwt = True
    memories = (Memory(0x0800_0000, 0x8_0000, False), Memory(0x2000_0000, 0x2_0000, True))
    vectors = 0x0800_0000
    irq = 38  # RM0390 table 38: USART2
    regions = 8

    def __init__(self, image: Path, *, seed: int = 1) -> None:
        self.timer = StTimer(self)
        self.overrun = self._overrun_seen = self.lose_next = False
        super().__init__(image, Line(1), seed=seed)

    def describe(self, registers: Registers) -> None:
        at = registers.add
        # 5.4 PWR. ODRDY follows ODEN, ODSWRDY follows ODSWEN, which asks for ODRDY first.
        at(0x4000_7000, "PWR_CR", 0x0033_FFF7, reset=0xC000, write=self._power)
        at(0x4000_7004, "PWR_CSR", 0x0000_0300, fixed=0x0003_400B | 0x000C_0000)
        # 3.8 FLASH
        at(0x4002_3C00, "FLASH_ACR", 0x0000_1F0F)
        # 6.3 RCC
        at(
            0x4002_3800,
            "RCC_CR",
            0x150D_00F9,
            fixed=0x2A02_FF02,
            reset=0x83,
            write=self._oscillators,
        )
        at(0x4002_3804, "RCC_PLLCFGR", 0x7F43_7FFF, reset=0x2400_3010, write=self._pll)
        at(0x4002_3808, "RCC_CFGR", 0xFFFF_FCF3, fixed=0xC, write=self._switch)
        at(0x4002_3830, "RCC_AHB1ENR", 0x6060_10FF)
        at(0x4002_3840, "RCC_APB1ENR", 0x3FFE_CBFF)
        at(
            0x4002_3874,
            "RCC_CSR",
            0x0100_0001,
            fixed=0xFE00_0002,
            reset=0x0E00_0000,
            write=self._flags,
        )
        # 7.4 GPIOA
        at(0x4002_0000, "GPIOA_MODER", reset=0xA800_0000)
        at(0x4002_000C, "GPIOA_PUPDR", reset=0x6400_0000)
        at(0x4002_0020, "GPIOA_AFRL")
        # 25.6 USART2
        at(0x4000_4400, "USART_SR", 0x0360, fixed=0x9F, reset=0xC0, read=self._state)
        at(0x4000_4404, "USART_DR", 0x1FF, read=self._receive, write=self._send)
        at(0x4000_4408, "USART_BRR", 0xFFFF)
        at(0x4000_440C, "USART_CR1", 0xBFFF)
        self.timer.describe(registers)

    def _oscillators(self, _: int) -> None:
        value = self.registers["RCC_CR"]
        ready = 0x0002_0000 if value & 1 << 16 else 0
        if value & 1 << 24:
            assert ready, "starts the PLL before its source is ready"
            ready |= 1 << 25
        if ready & 1 << 17:
            assert value & 1 << 18, "starts a crystal where the board has none"
        self.registers["RCC_CR"] = value & ~0x0202_0000 | ready

    def _pll(self, _: int) -> None:
        assert not self.registers["RCC_CR"] & 1 << 24, "changes a PLL that is on"

    def _power(self, value: int) -> None:
        assert self.registers["RCC_APB1ENR"] & 1 << 28, "writes to PWR, whose clock is off"
        ready = value & 1 << 16
        if value & 1 << 17:
            assert self.registers["PWR_CSR"] & 1 << 16, (
                "switches to an over-drive that is not ready"
            )
            ready |= 1 << 17
        self.registers["PWR_CSR"] = ready

    def _switch(self, value: int) -> None:
        source = value & 3
        if source == 2:
            assert self.registers["RCC_CR"] & 1 << 25, "switches to a PLL that is not ready"
        self.registers["RCC_CFGR"] = self.registers["RCC_CFGR"] & ~0xC | source << 2
        # Table 5: at 3.3 V a wait state for each 30 MHz; table 16: beyond 168 MHz an over-drive.
        assert (self.registers["FLASH_ACR"] & 15) >= (self.core_hz() - 1) // 30_000_000
        assert self.core_hz() <= 168_000_000 or self.registers["PWR_CSR"] >> 16 & 3 == 3
        assert self.core_hz() <= 180_000_000
        assert self._bus_hz(10) <= 45_000_000
        assert self._bus_hz(13) <= 90_000_000

    def _flags(self, value: int) -> None:
        if value & 1 << 24:
            self.registers["RCC_CSR"] = 0

    def core_hz(self) -> int:
        if self.registers["RCC_CFGR"] & 0xC == 0:
            return 16_000_000
        pll = self.registers["RCC_PLLCFGR"]
        source = HSE if pll & 1 << 22 else 16_000_000
        entering = source // (pll & 63)
        assert 1_000_000 <= entering <= 2_000_000
        within = entering * (pll >> 6 & 0x1FF)
        assert 100_000_000 <= within <= 432_000_000
        return within // (2 * (pll >> 16 & 3) + 2)

    def _bus_hz(self, shift: int) -> int:
        divider = self.registers["RCC_CFGR"] >> shift & 7
        return self.core_hz() >> (divider - 3 if divider >= 4 else 0)

    @property
    def timer_hz(self) -> int:
        bus = self._bus_hz(10)
        return bus if bus == self.core_hz() else 2 * bus

    @property
    def restarts(self) -> int:
        return self.timer.restarts

    @property
    def baud(self) -> float:
        return self._bus_hz(10) / self.registers["USART_BRR"]

    def _ready(self) -> None:
        enabled = self.registers["RCC_APB1ENR"] & 1 << 17 and self.registers["RCC_AHB1ENR"] & 1
        assert enabled, "uses a UART whose clock or pins are off"
        assert self.registers["GPIOA_MODER"] >> 4 & 15 == 0b1010, "PA2 and PA3 are not the UART's"
        assert self.registers["GPIOA_AFRL"] >> 8 & 0xFF == 0x77, "PA2 and PA3 have another function"
        assert self.registers["USART_CR1"] & 0x200C == 0x200C, "uses a UART that is off"

    def _state(self, value: int) -> int:
        value = value & ~0xE8 | (0x20 if self.line.incoming else 0) | (8 if self.overrun else 0)
        self._overrun_seen = self.overrun
        if self.lose_next and self.line.incoming:  # one arrives before the data is read
            self.overrun = self.line.lose()
            self.lose_next = not self.overrun
        return value | (0 if self.line.outgoing else 0xC0)

    def _receive(self, _: int) -> int:
        """Clear an overrun if the state was read with it (25.6.1, ORE)."""
        self._ready()
        if self.overrun and self._overrun_seen:
            self.overrun = False
            if not self.line.incoming:
                return 0
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
        received = control & 1 << 5 and (self.line.incoming or self.overrun)
        return bool(received or (control & 1 << 7 and not self.line.outgoing))

    def after_reset(self) -> None:
        self.registers["RCC_CSR"] = 0x1400_0000  # 6.3.21: software, and the pin that it pulls
