"""A Cortex-M that executes an image: memory, the core's own registers, interrupts, sleep and reset.

Unicorn has no interrupt controller, so exceptions are taken between slices of instructions: the
stack pointer moves down by a frame, the handler runs to its return, and the registers are put back
as the hardware's unstacking would. A fault ends the emulation with an error.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import unicorn
from unicorn import arm_const as arm

from harness import read_image
from tests.support.chips.line import Line
from tests.support.chips.registers import Registers

SLICE = 500
"""Instructions between two looks at what interrupts."""

RATE_TOLERANCE = 0.02
"""Share by which a rate may be off: a UART samples the last of ten bits within half of it."""

FIRST_BAUD = 115_200

HANDLER_LIMIT = 100_000
"""Instructions within which a handler must return."""

_RETURN = 0x1FFE_0000
"""Where a handler returns to; none of the chips has anything there."""

_FRAME = 0x68
"""Bytes that an exception pushes when floating point is in use."""

_WFI = b"\x30\xbf"
_AWAKE = 50
"""Instructions from a sleep to where interrupts are let, at most."""

_PATIENCE = 5_000
"""Slices within which a chip that does not sleep must have said something."""

_REPEATS = 100
"""Handlers in a row after which an interrupt is one that nothing ends."""

_FIRST_IRQ = 16
_AIRCR_RESET = 0x05FA_0004


@dataclass(frozen=True)
class Memory:
    """A piece of memory, and whether it keeps its contents without being written first."""

    start: int
    size: int
    writable: bool


class ChipError(AssertionError):
    """What the image did that the chip's manual does not allow."""


class Chip(ABC):
    """A chip with an image in its memory, before its first instruction.

    Attributes:
        registers: Its device registers.
        line: Its UART's line.
        resets: How often the software has reset it.
        sleeps: How often the core has gone to sleep.
        pc: Where the core is.
        host_baud: Rate at which the host listens.
    """

    model: int
    memories: tuple[Memory, ...]
    vectors: int
    """Where the core, or the boot ROM, looks for the vectors after a reset."""

    irq: int
    regions: int
    """Of the memory protection unit; 0 if there is none, or none that a port may use."""

    dwt: bool = False
    """Whether the core has the counters of a data watchpoint and trace unit."""

    kept_by_reset: tuple[str, ...] = ()
    """Registers that the core's request for a reset leaves alone."""

    restarts: int
    """How often the counter was set to zero together with its prescaler."""

    def __init__(self, image: Path, line: Line, *, seed: int = 1) -> None:
        self.line = line
        self.registers = Registers()
        self.resets = self.sleeps = 0
        self.host_baud = FIRST_BAUD
        self._instructions = self._looks = 0
        self._asleep = self._resetting = False
        self._wrong: AssertionError | None = None
        self._core_registers()
        self.describe(self.registers)
        self._uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(self.model)
        noise = random.Random(seed)
        for memory in self.memories:
            access = (
                unicorn.UC_PROT_ALL
                if memory.writable
                else unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC
            )
            self._uc.mem_map(memory.start, memory.size, access)
            if memory.writable:  # as power finds it
                self._uc.mem_write(memory.start, noise.randbytes(memory.size))
        self._uc.mem_map(_RETURN, 0x1000, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        for page in self.registers.pages():
            self._uc.mmio_map(page, 0x1000, self._read, page, self._write, page)
        for segment in read_image(image).segments:
            self._uc.mem_write(segment.address, segment.data)
        self._start()

    @property
    @abstractmethod
    def baud(self) -> float:
        """Rate of the line as the registers of clocks and UART make it."""

    @property
    @abstractmethod
    def timer_hz(self) -> int:
        """Rate of the tick counter, likewise."""

    @abstractmethod
    def describe(self, registers: Registers) -> None:
        """Add the registers that a port may use."""

    @abstractmethod
    def settle(self) -> None:
        """Let what takes time in the chip happen: bytes come and go, oscillators start."""

    @abstractmethod
    def interrupting(self) -> bool:
        """Whether the UART asks for its interrupt."""

    def after_reset(self) -> None:  # noqa: B027  most have nothing to do
        """Set what a reset by software leaves otherwise than it resets it."""

    def now(self) -> int:
        """Instructions since the beginning, about; more each time one asks."""
        self._looks += 1
        return self._instructions + 5 * self._looks

    def advance(self) -> bool:
        """Execute a slice; False if the core sleeps and nothing will wake it.

        Raises:
            ChipError: The image did something that the chip does not take.
        """
        before = len(self.line.sent)
        self.settle()
        if len(self.line.sent) > before:
            self._check_rate()
        pending = self.interrupting() and self._enabled(self.irq)
        if self._asleep and not pending:
            return not self.line.idle
        masked = self._uc.reg_read(arm.UC_ARM_REG_PRIMASK)
        for _ in range(_AWAKE if self._asleep and masked else 0):
            self._run(1)  # an interrupt that woke the core is taken as soon as it is let
            masked = self._uc.reg_read(arm.UC_ARM_REG_PRIMASK)
            if not masked:
                break
        self._asleep = False
        for taken in range(_REPEATS if pending and not masked else 0):
            self._take()
            if not self.interrupting():
                break
            # The core goes from handler to handler, and executes nothing else.
            if taken == _REPEATS - 1:
                raise ChipError("the UART's interrupt is taken again and again")
        self._run(SLICE)
        if self._resetting:
            self.reset()
        elif self._uc.mem_read(self.pc - 2, 2) == _WFI:  # which ends a slice
            self._asleep = True
            self.sleeps += 1
        return True

    def _check_rate(self) -> None:
        if abs(self.baud / self.host_baud - 1) > RATE_TOLERANCE:
            raise ChipError(f"sends with {self.baud:.0f} baud, and the host takes {self.host_baud}")

    # The core.

    def _core_registers(self) -> None:
        at = self.registers.add
        at(0xE000ED08, "VTOR", 0xFFFF_FF80, reset=0)
        at(0xE000ED0C, "AIRCR", write=self._reset_requested)
        at(0xE000ED88, "CPACR", 0x00FF_FFFF)
        at(0xE000ED90, "MPU_TYPE", 0, reset=self.regions << 8)
        if self.regions:
            at(0xE000ED94, "MPU_CTRL", 7)
            at(0xE000ED9C, "MPU_RBAR")
            at(0xE000EDA0, "MPU_RASR", 0x173F_FF3F)
        if self.dwt:
            self._dwt_registers()
        for index in range(8):
            at(0xE000E100 + 4 * index, f"NVIC_ISER{index}")

    def _dwt_registers(self) -> None:
        at = self.registers.add
        at(0xE000EDFC, "DEMCR", 1 << 24)
        at(0xE0001000, "DWT_CTRL", 31 << 17 | 1, reset=4 << 28)
        at(0xE0001004, "CYCCNT", read=lambda _: self._dwt_count(1, 0xFFFF_FFFF))
        for number, name in enumerate(("CPICNT", "EXCCNT", "SLEEPCNT", "LSUCNT", "FOLDCNT")):
            enabled = 1 << 17 + number
            at(
                0xE0001008 + 4 * number,
                name,
                read=lambda _, bit=enabled: self._dwt_count(bit, 0xFF),
            )
        at(0xE0001FB0, "DWT_LAR", write=self._unlocked)

    def _dwt_count(self, enabled: int, mask: int) -> int:
        tracing, control = self.registers["DEMCR"], self.registers["DWT_CTRL"]
        return self.now() & mask if tracing and control & enabled else 0

    def _unlocked(self, key: int) -> None:
        assert key == 0xC5ACCE55, f"writes {key:#x} to DWT_LAR"

    def _enabled(self, irq: int) -> bool:
        return bool(self.registers[f"NVIC_ISER{irq // 32}"] >> irq % 32 & 1)

    def _start(self) -> None:
        self._uc.reg_write(arm.UC_ARM_REG_SP, self._word(self.vectors))
        self.pc = self._word(self.vectors + 4)
        self._uc.reg_write(arm.UC_ARM_REG_PRIMASK, 0)
        assert self.pc & 1, "the reset vector has no Thumb bit"

    def _word(self, address: int) -> int:
        return int.from_bytes(self._uc.mem_read(address, 4), "little")

    def _run(self, count: int) -> None:
        try:
            self._uc.emu_start(self.pc | 1, _RETURN, count=count)
        except unicorn.UcError as error:
            at = self._uc.reg_read(arm.UC_ARM_REG_PC)
            raise ChipError(f"{error} at {at:#x}") from error
        self._instructions += count
        self.pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        if self._wrong is not None:
            raise ChipError(f"{self._wrong} at {self.pc:#x}") from self._wrong

    def reset(self) -> None:
        """Reset the chip as its software can; memory keeps what is in it."""
        self._resetting = self._asleep = False
        self.resets += 1
        self.registers.reset(keep=self.kept_by_reset)
        self.after_reset()
        self._start()

    def _take(self) -> None:
        kept = self._uc.context_save()
        resume = self.pc
        stack = self._uc.reg_read(arm.UC_ARM_REG_SP)
        self._uc.reg_write(arm.UC_ARM_REG_SP, (stack - _FRAME) & ~7)
        self._uc.reg_write(arm.UC_ARM_REG_LR, _RETURN | 1)
        self.pc = self._word(self.registers["VTOR"] + 4 * (_FIRST_IRQ + self.irq))
        self._run(HANDLER_LIMIT)
        if self.pc != _RETURN:
            raise ChipError(f"a handler did not return within {HANDLER_LIMIT} instructions")
        self._uc.context_restore(kept)
        self.pc = resume

    def _reset_requested(self, value: int) -> None:
        assert value == _AIRCR_RESET, f"writes {value:#x} to AIRCR"
        self._resetting = True
        self._uc.emu_stop()

    def _read(self, _uc: Any, offset: int, size: int, page: int) -> int:
        try:
            return self.registers.read(page + offset, size)
        except AssertionError as error:
            self._stop(error)
            return 0

    def _write(self, _uc: Any, offset: int, size: int, value: int, page: int) -> None:
        try:
            self.registers.write(page + offset, size, value)
        except AssertionError as error:
            self._stop(error)

    def _stop(self, error: AssertionError) -> None:
        self._wrong = self._wrong or error
        self._uc.emu_stop()


class ChipTransport:
    """The link to a chip, as the host's session wants it: the chip runs while the host waits."""

    def __init__(self, chip: Chip, *, patience: int = _PATIENCE) -> None:
        """``patience``: slices without a byte after which the chip counts as hanging."""
        self._chip = chip
        self._patience = patience

    def read(self, timeout: float) -> bytes:
        """What the chip has sent; ``b""`` when it sleeps and has nothing to say.

        Raises:
            ChipError: It goes on and on, and says nothing.
        """
        sent = self._chip.line.sent
        slices = 0
        while not sent and self._chip.advance():
            slices += 1
            if slices > self._patience:
                raise ChipError(f"silent for {slices} slices, the last at {self._chip.pc:#x}")
        data = bytes(sent)
        sent.clear()
        return data

    @property
    def baud(self) -> int:
        return self._chip.host_baud

    def set_baud(self, baud: int) -> None:
        self._chip.host_baud = baud

    def write(self, data: bytes, timeout: float) -> None:
        self._chip.line.feed(data)

    def close(self) -> None:
        pass
