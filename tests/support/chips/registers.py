"""Device registers that let nothing pass which their manual does not describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

WORD = 0xFFFF_FFFF


@dataclass
class Register:
    """A register of 32 bits.

    Attributes:
        name: As in the manual.
        value: What is in it.
        reset: What is in it after a reset.
        writable: Bits that software may change.
        fixed: Documented bits that software cannot change, and may write as anything.
        read: Gives what is read, from what is in it; None for that itself.
        write: Is told what was written, after ``value`` has it.
    """

    name: str
    value: int
    reset: int
    writable: int
    fixed: int
    read: Callable[[int], int] | None = None
    write: Callable[[int], None] | None = None


class Registers:
    """All registers of a chip, by address."""

    def __init__(self) -> None:
        self._at: dict[int, Register] = {}
        self._named: dict[str, Register] = {}

    def add(
        self,
        address: int,
        name: str,
        writable: int = WORD,
        *,
        fixed: int = 0,
        reset: int = 0,
        read: Callable[[int], int] | None = None,
        write: Callable[[int], None] | None = None,
    ) -> None:
        assert address not in self._at, name
        assert name not in self._named, name
        register = Register(name, reset, reset, writable, fixed, read, write)
        self._at[address] = self._named[name] = register

    def __getitem__(self, name: str) -> int:
        return self._named[name].value

    def __setitem__(self, name: str, value: int) -> None:
        self._named[name].value = value

    def pages(self) -> list[int]:
        return sorted({address & ~0xFFF for address in self._at})

    def reset(self, *, keep: tuple[str, ...] = ()) -> None:
        for register in self._at.values():
            if register.name not in keep:
                register.value = register.reset

    def read(self, address: int, size: int) -> int:
        register = self._find(address, size, "reads")
        return (register.read(register.value) if register.read else register.value) & WORD

    def write(self, address: int, size: int, value: int) -> None:
        register = self._find(address, size, "writes")
        reserved = WORD & ~(register.writable | register.fixed)
        wrong = (value ^ register.reset) & reserved
        assert not wrong, f"writes {value:#x} to {register.name}: bits {wrong:#x} are reserved"
        register.value = (value & register.writable) | (register.value & ~register.writable)
        if register.write:
            register.write(value)

    def _find(self, address: int, size: int, does: str) -> Register:
        assert size == 4, f"{does} {size} bytes at {address:#x}, which is no word"
        assert address in self._at, f"{does} {address:#x}, where no register is described"
        return self._at[address]
