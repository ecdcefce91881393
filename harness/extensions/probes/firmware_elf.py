"""Firmware as its linker wrote it: symbols, and the bytes that the board must have in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.errors import FormatError, UsageError, did_you_mean
from harness.files import open_regular
from harness.plugins import require

_SAMPLES: Final = 8
_SAMPLE_SIZE: Final = 32
"""So many pieces of this size tell one firmware from another: code moves when anything changes."""

_WRITABLE, _ALLOCATED = 1, 2  # SHF_WRITE, SHF_ALLOC
_THUMB: Final = ("EM_ARM",)


class Symbol(NamedTuple):
    """A symbol: its name, address and size in bytes."""

    name: str
    address: int
    size: int


class FixedBytes(NamedTuple):
    """Bytes that firmware has at an address and never changes."""

    address: int
    data: bytes


class FirmwareElf:
    """An ELF file of firmware for a 32-bit little-endian CPU.

    Attributes:
        path: The file.
        variables: Symbols of variables, by address.
        functions: Symbols of functions, by address.
        samples: Pieces of its code and constants.
        build_id: GNU build id in hexadecimal; "" without one.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UsageError: It cannot be read, or the package that reads it is missing.
            FormatError: It is not such an ELF file, or has no symbols.
        """
        self.path = path
        (reader, errors) = require(
            "probe", "reading an ELF file", "elftools.elf.elffile", "elftools.common.exceptions"
        )
        try:
            with os.fdopen(open_regular(path, follow=True), "rb") as file:
                elf = reader.ELFFile(file)
                if elf.elfclass != 32 or not elf.little_endian:
                    raise FormatError(f"{path} is not an ELF file of a 32-bit little-endian CPU")
                self._thumb = elf["e_machine"] in _THUMB
                found = list(self._read_symbols(elf))
                self.samples = tuple(_read_samples(elf))
                self.build_id = _read_build_id(elf)
        except OSError as error:
            raise UsageError(f"cannot read the firmware {path}: {error.strerror}") from error
        except errors.ELFError as error:
            raise FormatError(
                f"{path} is not an ELF file: {error}",
                hint="--elf takes the linker's output, not a .bin, .hex or .uf2 file",
            ) from error
        self.variables = sorted((s for kind, s in found if kind == "STT_OBJECT"), key=_address)
        self.functions = sorted((s for kind, s in found if kind == "STT_FUNC"), key=_address)

    def variable(self, name: str) -> Symbol:
        """Return a variable.

        Raises:
            UsageError: There is none of this name.
        """
        return self._named(name, self.variables, "variable")

    def function(self, name: str) -> Symbol:
        """Return a function; its address is that of its first instruction.

        Raises:
            UsageError: There is none of this name.
        """
        return self._named(name, self.functions, "function")

    def _named(self, name: str, symbols: list[Symbol], kind: str) -> Symbol:
        found = {symbol for symbol in symbols if symbol.name == name}
        if len(found) == 1:
            return found.pop()
        if found:
            places = ", ".join(f"{symbol.address:#x}" for symbol in sorted(found, key=_address))
            raise UsageError(
                f"{self.path} has {len(found)} {kind}s named {name!r}, at {places}",
                hint="give it a name of its own: static names may occur in several files",
            )
        others = self._names(symbols)
        hint = "an image that was stripped has no symbols; the linker may also have removed it"
        raise UsageError(
            f"{self.path} has no {kind} named {name!r}", hint=did_you_mean(name, others) + hint
        )

    @staticmethod
    def _names(symbols: list[Symbol]) -> set[str]:
        return {symbol.name for symbol in symbols}

    def _read_symbols(self, elf: Any) -> Iterator[tuple[str, Symbol]]:
        table = elf.get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if table is not None else ():
            kind, address = symbol["st_info"]["type"], symbol["st_value"]
            if symbol["st_shndx"] == "SHN_UNDEF" or not symbol.name:
                continue
            if kind == "STT_FUNC" and self._thumb:
                address &= ~1  # the lowest bit says Thumb
            yield kind, Symbol(symbol.name, address, symbol["st_size"])

    @cached_property
    def names(self) -> set[str]:
        """All names of variables and functions."""
        return self._names(self.variables) | self._names(self.functions)


def _address(symbol: Symbol) -> int:
    return symbol.address


def _read_samples(elf: Any) -> Iterator[FixedBytes]:
    """Yield pieces, spread evenly over the sections that are loaded and not written."""
    sections = [
        section
        for section in elf.iter_sections()
        if section["sh_type"] == "SHT_PROGBITS"
        and section["sh_flags"] & (_ALLOCATED | _WRITABLE) == _ALLOCATED
        and section["sh_size"] >= _SAMPLE_SIZE
    ]
    total = sum(section["sh_size"] for section in sections)
    for section in sections:
        size = section["sh_size"]
        count = max(1, round(_SAMPLES * size / total))
        data = section.data()
        for number in range(count):
            at = (size - _SAMPLE_SIZE) * number // max(1, count - 1)
            yield FixedBytes(section["sh_addr"] + at, data[at : at + _SAMPLE_SIZE])


def _read_build_id(elf: Any) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    notes = section.iter_notes() if section is not None else ()
    return next((str(note["n_desc"]) for note in notes if note["n_type"] == "NT_GNU_BUILD_ID"), "")
