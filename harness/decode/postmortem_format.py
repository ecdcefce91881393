"""Numbers of a postmortem. Generated from ``schema/postmortem.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x4D505445
"""'ETPM' read as a little-endian u32."""
SECOND_MAGIC: Final = 0x9E3B71C5
"""At the end of the head: memory after power-on has not both."""
VERSION: Final = 0x1
"""Format version."""
HEAD_SIZE: Final = 0x40
"""Bytes, its check included."""
RUN_SIZE: Final = 0x8
"""Bytes."""
FAULT_SIZE: Final = 0x50
"""Bytes, its check included."""
AFTER_SIZE: Final = 0x18
"""Bytes."""
BUILD_ID_SIZE: Final = 0x10
"""Bytes; longer ones are cut."""
REGISTERS: Final = 0x10
"""Registers of a fault."""
SCOPES: Final = 0x4
"""Open scopes that are kept; deeper ones are not."""
SCOPE_SIZE: Final = 0x14
"""Bytes."""
KEPT: Final = 0x5450454B
"""'KEPT' read as a little-endian u32."""


class Condition(IntEnum):
    """What a device has found after a reset."""

    NONE = 0x0
    """Nothing to tell."""
    WHOLE = 0x1
    """A record that agrees with its checks."""
    DAMAGED = 0x2
    """A record, parts of which do not."""


class Phase(IntEnum):
    """What the device was doing."""

    IDLE = 0x454C4449
    """Nothing has run since it started."""
    RUNNING = 0x214E5552
    """A run."""
    ENDED = 0x21444E45
    """Serving the host, after a run."""


class Fault(IntEnum):
    """Kinds of fault."""

    NONE = 0x0
    """None: a watchdog or somebody else has reset the device."""
    CORTEX_M = 0x1
    """An exception; the number is the one in IPSR."""
    RISCV = 0x2
    """A trap to machine mode; the number is mcause."""
    SIGNAL = 0x3
    """A signal to a process of the host; the number is the host's."""


class Field(IntEnum):
    """Fields of the tracer that the head gives offsets of."""

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
    """U8: open scopes."""
    OPEN_SCOPES = 0xA
    """The first of the scopes."""


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
    """As stacked: where the function would have returned to."""
    PC = 0x6
    """As stacked: the instruction that faulted."""
    XPSR = 0x7
    """As stacked."""
    SP = 0x8
    """Before the exception."""
    EXC_RETURN = 0x9
    """The link register in the handler."""
    CFSR = 0xA
    """Configurable fault status."""
    HFSR = 0xB
    """HardFault status."""
    MMFAR = 0xC
    """Address of a MemManage fault."""
    BFAR = 0xD
    """Address of a BusFault."""


class Riscv(IntEnum):
    """Registers of a RISC-V trap."""

    PC = 0x0
    """Mepc: the instruction that trapped."""
    RA = 0x1
    """Return address."""
    SP = 0x2
    """Stack pointer."""
    TVAL = 0x3
    """Mtval: the address or instruction at fault."""
    STATUS = 0x4
    """Mstatus."""


class Signal(IntEnum):
    """What a process knows of a signal."""

    PC = 0x0
    """Offset of the instruction in the image."""
    ADDRESS = 0x1
    """Low half of the address at fault."""
    ADDRESS_HIGH = 0x2
    """Its high half."""


class Reason(IntEnum):
    """Bits of the reset reason, as far as the device has a register for it."""

    KNOWN = 0x1
    """It has one."""
    POWER = 0x2
    """Power-on or brown-out."""
    PIN = 0x4
    """The reset pin."""
    WATCHDOG = 0x8
    """A watchdog."""
    SOFTWARE = 0x10
    """The firmware itself."""
    LOCKUP = 0x20
    """A fault in the fault handler."""
