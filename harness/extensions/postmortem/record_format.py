"""Postmortem constants. Generated from ``schema/postmortem.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x4D505445
"""'ETPM' read as a little-endian u32."""
SECOND_MAGIC: Final = 0x9E3B71C5
"""At the end of the head; memory after power-on is unlikely to hold both."""
VERSION: Final = 0x1
"""Format version."""
HEAD_SIZE: Final = 0x40
"""Size in bytes, including its CRC."""
RUN_SIZE: Final = 0x8
"""Size in bytes."""
FAULT_SIZE: Final = 0x50
"""Size in bytes, including its CRC."""
AFTER_SIZE: Final = 0x18
"""Size in bytes."""
BUILD_ID_SIZE: Final = 0x10
"""Size in bytes; longer build ids are truncated."""
REGISTERS: Final = 0x10
"""Number of registers of a fault."""
SCOPES: Final = 0x4
"""Maximum number of open scopes stored."""
SCOPE_SIZE: Final = 0x14
"""Size in bytes."""
KEPT: Final = 0x5450454B
"""'KEPT' read as a little-endian u32."""


class Condition(IntEnum):
    """What a device found after a reset."""

    NONE = 0x0
    """No postmortem."""
    WHOLE = 0x1
    """A record with valid CRCs."""
    DAMAGED = 0x2
    """A record that is damaged in part."""


class Phase(IntEnum):
    """Activity of the device."""

    IDLE = 0x454C4449
    """No run since the device started."""
    RUNNING = 0x214E5552
    """Executing a run."""
    ENDED = 0x21444E45
    """Serving the host after a run."""


class Fault(IntEnum):
    """Kinds of fault."""

    NONE = 0x0
    """No fault: a watchdog or another source reset the device."""
    CORTEX_M = 0x1
    """An exception; the number is from IPSR."""
    RISCV = 0x2
    """A trap to machine mode; the number is mcause."""
    SIGNAL = 0x3
    """A signal to a process of the host; the number is the host's."""


class Field(IntEnum):
    """Fields of the tracer whose offsets are in the head."""

    RECORD_COUNT = 0x0
    """U32."""
    NAMES_SIZE = 0x1
    """U32."""
    NAME_COUNT = 0x2
    """U16."""
    DROPPED_EVENTS = 0x3
    """U32."""
    DROPPED_BLOCKS = 0x4
    """U32."""
    FILTERED_EVENTS = 0x5
    """U32."""
    FULL = 0x6
    """U8."""
    CHUNK = 0x7
    """U32."""
    FIRST_RECORD = 0x8
    """U32."""
    OPEN_COUNT = 0x9
    """U8: number of open scopes."""
    OPEN_SCOPES = 0xA
    """The first scope."""


class CortexM(IntEnum):
    """Registers of a Cortex-M fault."""

    R0 = 0x0
    """As stacked."""
    R1 = 0x1
    """As stacked."""
    R2 = 0x2
    """As stacked."""
    R3 = 0x3
    """As stacked."""
    R12 = 0x4
    """As stacked."""
    LR = 0x5
    """As stacked: return address of the function."""
    PC = 0x6
    """As stacked: the faulting instruction."""
    XPSR = 0x7
    """As stacked."""
    SP = 0x8
    """Stack pointer before the exception."""
    EXC_RETURN = 0x9
    """Link register in the handler."""
    CFSR = 0xA
    """Configurable Fault Status Register."""
    HFSR = 0xB
    """HardFault Status Register."""
    MMFAR = 0xC
    """Address of a MemManage fault."""
    BFAR = 0xD
    """Address of a BusFault."""


class Riscv(IntEnum):
    """Registers of a RISC-V trap."""

    PC = 0x0
    """Mepc: the faulting instruction."""
    RA = 0x1
    """Return address."""
    SP = 0x2
    """Stack pointer."""
    TVAL = 0x3
    """Mtval: the faulting address or instruction."""
    STATUS = 0x4
    """Mstatus."""


class Signal(IntEnum):
    """Data of a signal to a process."""

    PC = 0x0
    """Offset of the instruction in the image."""
    ADDRESS = 0x1
    """Low half of the faulting address."""
    ADDRESS_HIGH = 0x2
    """High half of the faulting address."""


class Reason(IntEnum):
    """Bits of the reset reason, from a register of the device."""

    KNOWN = 0x1
    """The device has such a register."""
    POWER = 0x2
    """Power-on or brown-out."""
    PIN = 0x4
    """Reset pin."""
    WATCHDOG = 0x8
    """Watchdog."""
    SOFTWARE = 0x10
    """Reset by the firmware."""
    LOCKUP = 0x20
    """A fault in the fault handler."""
