"""Firmware images: reads ELF, Intel HEX, UF2 and flat files, and converts between them.

Addresses are load addresses (LMA): where bytes are stored, which for initialized variables is not
where they are used. Own readers of a few lines each: pyelftools reads far more of an ELF file than
its loaded sections, and no library covers all four formats.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from harness.errors import FormatError, UsageError
from harness.files import read_limited

MOST_IMAGE: Final = 1 << 30
"""Largest file with an image, bytes; one with debug information has some megabytes."""

_LARGEST_BIN: Final = 64 << 20
"""Limit of a flat image, bytes: one with pieces in flash and in RAM would have gigabytes."""

_BANNER: Final = re.compile(rb"etdump stub ([^\0]{1,200}) on \0")
"""The banner of ``firmware_stub/src/app/app.c``, which contains the build id."""

_ELF_MAGIC: Final = b"\x7fELF"
_PT_LOAD: Final = 1
_SHT_NOBITS: Final = 8
_SHF_ALLOC: Final = 2

_UF2_BLOCK: Final = 512
_UF2_MAGIC: Final = struct.pack("<II", 0x0A324655, 0x9E5D5157)
_UF2_END: Final = struct.pack("<I", 0x0AB16F30)
_UF2_PAYLOAD: Final = 256
_UF2_HEADER: Final = struct.Struct("<8sIIIIII")
_UF2_NOT_FLASH: Final = 1
_UF2_FAMILY: Final = 0x2000

_HEX_DATA, _HEX_END, _HEX_SEGMENT, _HEX_LINEAR = 0, 1, 2, 4
_HEX_ROW: Final = 16


class ImageFormat(StrEnum):
    """Kinds of image files."""

    ELF = "elf"
    HEX = "hex"
    BIN = "bin"
    UF2 = "uf2"


class Segment(NamedTuple):
    """Bytes at a load address."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + len(self.data)


@dataclass(frozen=True, slots=True)
class Image:
    """A firmware image.

    Attributes:
        path: Its file.
        format: Its file format.
        segments: Its bytes by address; adjacent pieces are joined.
        sha256: Digest of the file, hexadecimal.
        placed: Whether the addresses are known; those of a ``.bin`` begin at 0 by default.
    """

    path: Path
    format: ImageFormat
    segments: tuple[Segment, ...]
    sha256: str
    placed: bool = True

    @property
    def nbytes(self) -> int:
        """Number of bytes to write."""
        return sum(len(segment.data) for segment in self.segments)

    @property
    def address(self) -> int:
        """The lowest address.

        Raises:
            UsageError: The load address of a ``.bin`` is not known.
        """
        self._require_address()
        return self.segments[0].address

    def _require_address(self) -> None:
        if not self.placed:
            raise UsageError(
                f"{self.path} has no load address",
                hint="use an ELF or HEX file, or set `address` in [flash.options.TOOL] of the "
                "board file",
            )

    def at(self, address: int | None) -> Image:
        """Return the image at the load address ``address``, unless it has its own."""
        if self.placed or address is None:
            return self
        moved = tuple(Segment(item.address + address, item.data) for item in self.segments)
        return Image(self.path, self.format, moved, self.sha256)

    def names(self, board: str) -> bool:
        """Return whether it contains a board's name, which this project's firmware reports."""
        return any(board.encode() + b"\0" in segment.data for segment in self.segments)

    def build_id(self) -> str | None:
        """Return the build id that this firmware will report, from its banner; None without one.

        Raises:
            UsageError: It contains several different ones.
        """
        build_ids = {
            match[1] for segment in self.segments for match in _BANNER.finditer(segment.data)
        }
        if len(build_ids) > 1:
            names = ", ".join(sorted(repr(name.decode("utf-8", "replace")) for name in build_ids))
            raise UsageError(
                f"{self.path} contains several firmwares: {names}",
                hint="use an image with one of them, or --no-identity to skip the comparison of "
                "build ids",
            )
        return build_ids.pop().decode("utf-8", "replace") if build_ids else None

    def as_format(self, wanted: ImageFormat, family: int) -> bytes:
        """Return the image as HEX, flat, or UF2 for a chip family.

        Raises:
            UsageError: Its load address is not known, or its pieces are too far apart.
        """
        if wanted is ImageFormat.BIN:
            return self.as_bin()
        self._require_address()
        return self.as_hex() if wanted is ImageFormat.HEX else self.as_uf2(family)

    def as_bin(self) -> bytes:
        """Return a flat image from the lowest address; gaps are 0xFF, as erased flash.

        Raises:
            UsageError: Its pieces are too far apart.
        """
        begin, end = self.segments[0].address, self.segments[-1].end
        if end - begin > _LARGEST_BIN:
            raise UsageError(
                f"{self.path} cannot be a flat image: it spans addresses {begin:#x} to {end:#x}",
                hint="use a tool that supports ELF or HEX files",
            )
        flat = bytearray(b"\xff" * (end - begin))
        for segment in self.segments:
            flat[segment.address - begin : segment.end - begin] = segment.data
        return bytes(flat)

    def as_hex(self) -> bytes:
        """Return the image as Intel HEX."""
        lines = []
        high = 0
        for segment in self.segments:
            for address, row in _rows(segment, _HEX_ROW):
                if address >> 16 != high:
                    high = address >> 16
                    lines.append(_hex_record(0, _HEX_LINEAR, high.to_bytes(2, "big")))
                lines.append(_hex_record(address & 0xFFFF, _HEX_DATA, row))
        lines.append(_hex_record(0, _HEX_END, b""))
        return "".join(f"{line}\n" for line in lines).encode()

    def as_uf2(self, family: int) -> bytes:
        """Return the image as UF2 for a chip family (https://github.com/microsoft/uf2)."""
        rows = [row for segment in self.segments for row in _rows(segment, _UF2_PAYLOAD)]
        blocks = [
            _UF2_HEADER.pack(_UF2_MAGIC, _UF2_FAMILY, address, len(row), number, len(rows), family)
            + row.ljust(_UF2_BLOCK - _UF2_HEADER.size - len(_UF2_END), b"\0")
            + _UF2_END
            for number, (address, row) in enumerate(rows)
        ]
        return b"".join(blocks)


def read_image(path: Path) -> Image:
    """Read an image; the format is detected from the contents.

    Raises:
        UsageError: The file cannot be read.
        FormatError: It is truncated, inconsistent, or contains nothing to write.
    """
    try:
        data = read_limited(path, MOST_IMAGE)
    except OSError as error:
        raise UsageError(f"cannot read the image {path}: {error.strerror}") from error
    kind = _kind(path, data)
    try:
        match kind:
            case ImageFormat.ELF:
                pieces = list(_elf(data))
            case ImageFormat.HEX:
                pieces = list(_hex(data))
            case ImageFormat.UF2:
                pieces = list(_uf2(data))
            case ImageFormat.BIN:
                pieces = [Segment(0, data)]
    except FormatError as error:
        error.args = (f"{path}: {error.message}",)
        error.message = error.args[0]
        raise
    segments = _joined(path, pieces)
    if not segments:
        raise FormatError(f"{path} contains nothing to write to a board")
    digest = hashlib.sha256(data).hexdigest()
    return Image(path, kind, segments, digest, placed=kind is not ImageFormat.BIN)


def _kind(path: Path, data: bytes) -> ImageFormat:
    if data.startswith(_ELF_MAGIC):
        return ImageFormat.ELF
    if data.startswith(_UF2_MAGIC):
        return ImageFormat.UF2
    if re.match(rb"\s*:[0-9A-Fa-f]{10}", data):
        return ImageFormat.HEX
    if path.suffix == f".{ImageFormat.BIN}":
        return ImageFormat.BIN
    raise FormatError(
        f"{path} is not an ELF, Intel HEX or UF2 file",
        hint="the name of a flat image must end in .bin",
    )


def _joined(path: Path, pieces: Iterable[Segment]) -> tuple[Segment, ...]:
    """Sort the pieces by address, and join adjacent ones."""
    joined: list[tuple[int, bytearray]] = []
    for piece in sorted(piece for piece in pieces if piece.data):
        last_end = joined[-1][0] + len(joined[-1][1]) if joined else -1
        if piece.address < last_end:
            raise FormatError(f"{path} has overlapping data at {piece.address:#x}")
        if piece.address == last_end:
            joined[-1][1].extend(piece.data)
        else:
            joined.append((piece.address, bytearray(piece.data)))
    return tuple(Segment(address, bytes(data)) for address, data in joined)


def _elf(data: bytes) -> Iterator[Segment]:
    """Yield the loaded sections of a little-endian ELF file.

    By sections, as in objcopy and gdb: the linker may start a segment early, at the file's own
    header, which must not be written. Load addresses come from the enclosing segments.
    """
    if len(data) < 20:
        raise FormatError("the file is truncated", offset=len(data))
    wide, order = data[4] == 2, data[5]
    if order != 1:
        raise FormatError("not little-endian", offset=5)
    try:
        fields = struct.unpack_from("<QQQIHHHHHH" if wide else "<IIIIHHHHHH", data, 24)
        _, program_at, section_at, _, _, program_size, programs, section_size, sections, _ = fields
        segments = [
            # type, offset, load address, size in the file
            _pick(struct.unpack_from(form, data, program_at + index * program_size), picks)
            for index in range(programs)
            for form, picks in [("<IIQQQQ", (0, 2, 4, 5)) if wide else ("<IIIII", (0, 1, 3, 4))]
        ]
        table = [
            # type, flags, offset, size
            _pick(
                struct.unpack_from(
                    "<IIQQQQ" if wide else "<IIIIII", data, section_at + index * section_size
                ),
                (1, 2, 4, 5),
            )
            for index in range(sections)
        ]
    except struct.error as error:
        raise FormatError("the file is truncated", offset=len(data)) from error
    loads = [tuple(rest) for kind, *rest in segments if kind == _PT_LOAD and rest[2] > 0]
    if table:
        wanted = [
            (offset, size)
            for kind, flags, offset, size in table
            if flags & _SHF_ALLOC and kind != _SHT_NOBITS and size
        ]
    else:
        wanted = [(offset, size) for offset, _, size in loads]
    for offset, size in wanted:
        if offset + size > len(data):
            raise FormatError("the file is truncated", offset=len(data))
        for begin, address, length in loads:
            if begin <= offset and offset + size <= begin + length:
                yield Segment(address + offset - begin, data[offset : offset + size])
                break


def _pick(values: tuple[int, ...], indices: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(values[index] for index in indices)


def _hex(data: bytes) -> Iterator[Segment]:
    base = 0
    for number, line in enumerate(data.split(), 1):
        try:
            record = bytes.fromhex(line.removeprefix(b":").decode())
        except ValueError as error:
            raise FormatError(f"line {number} is not a HEX record") from error
        whole = bool(record) and line.startswith(b":") and len(record) == record[0] + 5
        if not whole or sum(record) & 0xFF:
            raise FormatError(f"line {number} is damaged: wrong length or checksum")
        kind, body = record[3], record[4:-1]
        if kind == _HEX_DATA:
            yield Segment(base + int.from_bytes(record[1:3], "big"), body)
        elif kind == _HEX_END:
            return
        elif kind in (_HEX_SEGMENT, _HEX_LINEAR):
            base = int.from_bytes(body, "big") << (4 if kind == _HEX_SEGMENT else 16)
    raise FormatError("the file is truncated: the end record is missing")


def _uf2(data: bytes) -> Iterator[Segment]:
    for offset in range(0, len(data), _UF2_BLOCK):
        block = data[offset : offset + _UF2_BLOCK]
        if len(block) < _UF2_BLOCK:
            raise FormatError("the file is truncated", offset=len(data))
        magic, flags, address, size, number, count, _ = _UF2_HEADER.unpack_from(block)
        payload = block[_UF2_HEADER.size : _UF2_HEADER.size + size]
        if magic != _UF2_MAGIC or not block.endswith(_UF2_END) or len(payload) < size:
            raise FormatError("not a UF2 block", offset=offset)
        if number == 0 and count * _UF2_BLOCK > len(data) - offset:
            raise FormatError(f"the file is truncated: {count} blocks declared", offset=len(data))
        if not flags & _UF2_NOT_FLASH:
            yield Segment(address, payload)


def _rows(segment: Segment, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield rows aligned to multiples of ``size``, so that no row crosses a 64 KiB boundary."""
    begin = segment.address
    while begin < segment.end:
        end = min(begin // size * size + size, segment.end)
        yield begin, segment.data[begin - segment.address : end - segment.address]
        begin = end


def _hex_record(address: int, kind: int, body: bytes) -> str:
    record = bytes([len(body)]) + address.to_bytes(2, "big") + bytes([kind]) + body
    return f":{record.hex()}{-sum(record) & 0xFF:02x}".upper()
