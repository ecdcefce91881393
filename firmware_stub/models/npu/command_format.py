"""Constants of the simulated NPU's job format. Generated from ``schema/npu.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x55504E45
"""'ENPU' read as a little-endian u32."""
VERSION: Final = 0x1
"""Version of the job format."""
HEADER_SIZE: Final = 0x10
"""Size in bytes."""
OPERAND_SIZE: Final = 0xC
"""Size in bytes."""
COMMAND_SIZE: Final = 0x10
"""Size in bytes."""
METADATA_SIZE: Final = 0x8
"""Size in bytes."""
NO_OPERAND: Final = 0xFFFF
"""Marks an unused operand of a command."""
FLAG_RELU: Final = 0x1
"""Command flag: replace negative results by 0."""
FLAG_NAMED: Final = 0x2
"""Command flag: the debug id is a string."""
COUNTER_BITS: Final = 0x18
"""Width of the counter in bits."""
COMMAND_CYCLES: Final = 0x20
"""Cycles to fetch and start a command."""
BYTES_PER_CYCLE: Final = 0x8
"""Bytes of operands transferred per cycle."""
DEFAULT_LANES: Final = 0x4
"""MACs per cycle."""
MAX_LANES: Final = 0x40
"""MACs per cycle."""


class Place(IntEnum):
    """Location of an operand."""

    ARGUMENT = 0x0
    """An input or output of the delegate."""
    CONSTANT = 0x1
    """In the job."""
    SCRATCH = 0x2
    """In local memory."""


class Op(IntEnum):
    """Operation of a command."""

    LINEAR = 0x1
    """Out[i,j] = c[j] + sum over k of a[i,k] * b[j,k]; c may be missing."""
    ADD = 0x2
    """Out = a + b, element by element."""
    MULTIPLY = 0x3
    """Out = a * b, element by element."""
    RELU = 0x4
    """Out = a where a > 0, else 0."""
