"""TIM2 as RM0390 chapter 17 and RM0433 chapter 39 describe it: 32 bits, a buffered prescaler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.chips.registers import WORD, Registers

if TYPE_CHECKING:
    from tests.support.chips.core import Chip


class StTimer:
    """Counts the instructions of its chip.

    Attributes:
        restarts: How often it was set to zero with its prescaler.
    """

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._began = 0
        self._count = 0
        self._divider = 1
        self.restarts = 0

    def describe(self, registers: Registers) -> None:
        registers.add(0x4000_0000, "TIM2_CR1", 0x0BFF, write=self._control)
        registers.add(0x4000_0014, "TIM2_EGR", 0x5F, write=self._update)
        registers.add(0x4000_0024, "TIM2_CNT", read=self._read, write=self._set)
        registers.add(0x4000_0028, "TIM2_PSC", 0xFFFF, reset=0)
        registers.add(0x4000_002C, "TIM2_ARR", reset=WORD)

    def _read(self, _: int = 0) -> int:
        if not self._chip.registers["TIM2_CR1"] & 1:
            return self._count
        return self._count + (self._chip.now() - self._began) // self._divider

    def _control(self, _: int) -> None:
        enables = self._chip.registers["RCC_APB1LENR" if self._later else "RCC_APB1ENR"]
        assert enables & 1, "uses TIM2, whose clock is off"
        self._began = self._chip.now()

    @property
    def _later(self) -> bool:
        return type(self._chip).__name__ == "Stm32H743"

    def _set(self, value: int) -> None:
        self._count, self._began = value, self._chip.now()

    def _update(self, value: int) -> None:
        assert value == 1
        self._divider = self._chip.registers["TIM2_PSC"] + 1
        self._set(0)
        self.restarts += 1
