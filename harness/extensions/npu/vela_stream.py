"""The container of EthosUBackend's blob: named blocks, which ExecuTorch's compiler writes.

Each block has a header of 32 bytes (a name of 16, the length of its data, a byte that marks a
reference to data outside the program) and data that is padded to 16 bytes. The first block is
``vela_bin_stream``, the last ``vela_end_stream``; both are empty. The format is that of
``backends/arm/arm_vela.py`` and ``backends/arm/runtime/VelaBinStream.cpp`` of ExecuTorch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.errors import FormatError

_HEADER: Final = struct.Struct("<16sIB11x")
_TENSOR: Final = struct.Struct("<9i")
_FIRST: Final = "vela_bin_stream"
_LAST: Final = "vela_end_stream"
_KNOWN: Final = {"cmd_data", "weight_data", "scratch_size", "inputs", "outputs"}
EXPORT_AGAIN: Final = "export the model again with ExecuTorch's EthosUPartitioner"


@dataclass(frozen=True, slots=True)
class VelaStream:
    """The blocks of a blob.

    Attributes:
        commands: The driver's header and the NPU's commands; empty if they are outside the program.
        commands_at: Byte offset of the commands in the blob.
        constants: Bytes of the constants: weights, scales, tables; None if they are outside.
        scratch: Bytes of memory for inputs, outputs and everything between.
        inputs: Shapes of the inputs in the order of the call, of six dimensions each.
        outputs: Those of the outputs likewise.
        outside: Names of the blocks whose data is outside the program.
        unknown: Names of blocks that this version does not know.
    """

    commands: bytes = b""
    commands_at: int = 0
    constants: int | None = 0
    scratch: int = 0
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    outside: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def read_stream(blob: bytes, named: Mapping[str, bytes]) -> VelaStream:
    """Read the blocks of a blob; ``named`` is data in the program that some may refer to.

    Raises:
        FormatError: The blob is truncated or damaged, or of another kind.
    """
    blocks: dict[str, tuple[int, bytes]] = {}
    outside, unknown = [], []
    for name, at, external, data in _blocks(blob):
        if name in blocks or name in outside:
            raise _damaged(f"the block {name!r} is there twice", at, _FIRST)
        if external and (key := data.decode("ascii", "backslashreplace")) in named:
            data, external = named[key], False
        if external:
            outside.append(name)
        elif name in _KNOWN:
            blocks[name] = at, data
        else:
            unknown.append(name)
    for required in ("cmd_data", "scratch_size", "inputs", "outputs"):
        if required not in blocks and required not in outside:
            raise _damaged(f"the block {required!r} is missing", 0, _FIRST)
    commands_at, commands = blocks.get("cmd_data", (0, b""))
    return VelaStream(
        commands,
        commands_at,
        None if "weight_data" in outside else len(blocks.get("weight_data", (0, b""))[1]),
        _scratch(blocks),
        _tensors(blocks, "inputs"),
        _tensors(blocks, "outputs"),
        tuple(outside),
        tuple(unknown),
    )


def _blocks(blob: bytes) -> Iterator[tuple[str, int, bool, bytes]]:
    """Yield names, offsets, whether the data is outside, and the data of all inner blocks."""
    at, name = 0, ""
    while name != _LAST:
        if at + _HEADER.size > len(blob):
            raise _damaged(f"no block {_LAST} at the end", at, _FIRST)
        raw, length, external = _HEADER.unpack_from(blob, at)
        name = raw.partition(b"\0")[0].decode("ascii", "backslashreplace")
        if (at == 0) != (name == _FIRST):
            raise _damaged(f"the block {name!r} is out of order", at, _FIRST)
        data_at = at + _HEADER.size
        if length > len(blob) - data_at:
            missing = length - (len(blob) - data_at)
            raise _damaged(f"{missing} bytes of the block {name!r} are missing", at, _FIRST)
        if name not in (_FIRST, _LAST):
            yield name, data_at, bool(external), blob[data_at : data_at + length]
        at = data_at + (length + 15) // 16 * 16


def _scratch(blocks: dict[str, tuple[int, bytes]]) -> int:
    at, data = blocks.get("scratch_size", (0, b"\0\0\0\0"))
    if len(data) != 4:
        raise _damaged(f"{len(data)} bytes, not 4", at, "scratch_size")
    return int.from_bytes(data, "little")


def _tensors(blocks: dict[str, tuple[int, bytes]], name: str) -> tuple[tuple[int, ...], ...]:
    at, data = blocks.get(name, (0, b"\0\0\0\0"))
    count = int.from_bytes(data[:4], "little")
    if len(data) != 4 + count * _TENSOR.size:
        raise _damaged(f"{len(data)} bytes are not those of {count} tensors", at, name)
    found = []
    for number in range(count):
        *shape, item, offset, region = _TENSOR.unpack_from(data, 4 + number * _TENSOR.size)
        if min(*shape, item, offset, region) < 0:
            raise _damaged(f"tensor {number} has a negative number", at, name)
        found.append(tuple(shape))
    return tuple(found)


def _damaged(what: str, at: int, block: str) -> FormatError:
    return FormatError(what, offset=at, field=block, hint=EXPORT_AGAIN)
