"""Function and source line of addresses in a firmware image, from the toolchain's addr2line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from harness.target.process_group import run_program

_DEADLINE_S: Final = 30.0
_MACHINE_AT: Final = 18
"""Offset of ``e_machine`` in an ELF file."""
_PREFIXES: Final = {40: "arm-none-eabi-", 243: "riscv64-unknown-elf-"}
"""Toolchain prefix by ``e_machine``; other images are for this host."""


class ImageSymbols:
    """Looks up addresses in one image; without a working addr2line all lookups return None."""

    def __init__(self, image: Path) -> None:
        """Read the header of an ELF file.

        Raises:
            OSError: The file cannot be read.
        """
        with image.open("rb") as file:
            header = file.read(_MACHINE_AT + 2)
        prefix = _PREFIXES.get(int.from_bytes(header[_MACHINE_AT:], "little"), "")
        self._command = [f"{prefix}addr2line", "-f", "-e", str(image)]

    def place(self, address: int) -> str | None:
        """Return ``function at file:line``, only the function if the line is unknown, or None."""
        try:
            done = run_program([*self._command, hex(address)], _DEADLINE_S)
        except OSError:
            return None
        if done.code != 0:
            return None
        function, _, line = done.stdout.decode(errors="replace").strip().partition("\n")
        if not function or function.startswith("?"):
            return None
        file, _, number = line.partition(" ")[0].rpartition(":")
        return f"{function} at {Path(file).name}:{number}" if number.isdigit() else function
