"""Numbers of the simulated NPU's jobs. Generated from ``schema/npu.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

MAGIC: Final = 0x55504E45
"""'ENPU' read as a little-endian u32."""
VERSION: Final = 0x1
"""Version of this format."""
HEADER_SIZE: Final = 0x10
"""Bytes."""
OPERAND_SIZE: Final = 0xC
"""Bytes."""
COMMAND_SIZE: Final = 0x10
"""Bytes."""
METADATA_SIZE: Final = 0x8
"""Bytes."""
NO_OPERAND: Final = 0xFFFF
"""Operand of a command that has none in this place."""
FLAG_RELU: Final = 0x1
"""Command flag: negative results become 0."""
FLAG_NAMED: Final = 0x2
"""Command flag: the debug id is a text."""
COUNTER_BITS: Final = 0x18
"""Width of the counter."""
COMMAND_CYCLES: Final = 0x20
"""Cycles to fetch and set up a command."""
BYTES_PER_CYCLE: Final = 0x8
"""Bytes of operands moved per cycle."""
DEFAULT_LANES: Final = 0x4
"""MACs per cycle."""
MAX_LANES: Final = 0x40
"""MACs per cycle."""


class Place(IntEnum):
    """Where an operand is."""

    ARGUMENT = 0x0
    """An input or output of the delegate."""
    CONSTANT = 0x1
    """In the job."""
    SCRATCH = 0x2
    """In local memory."""


class Op(IntEnum):
    """What a command computes."""

    LINEAR = 0x1
    """Out[i,j] = c[j] + sum over k of a[i,k] * b[j,k]; c may be missing."""
    ADD = 0x2
    """Out = a + b, element by element."""
    MULTIPLY = 0x3
    """Out = a * b, element by element."""
    RELU = 0x4
    """Out = a where that is greater than 0, else 0."""
