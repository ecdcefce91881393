"""etharness with a debug probe that pyOCD finds: SWD accesses go to QEMU, through its gdbserver.

    python pyocd_board.py GDBSERVER ARGUMENTS...

pyOCD's own session, discovery of components, and control of the core run as with a real probe. Only
registers of the debug port, the ROM table and the core's debug registers are made up here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from pyocd.core.memory_interface import MemoryInterface
from pyocd.probe.aggregator import PROBE_CLASSES
from pyocd.probe.debug_probe import DebugProbe

from harness.cli import main
from harness.link.probe import open_probe

ROM_TABLE, SCS = 0xE00FF000, 0xE000E000
CPUID, DHCSR = 0xE000ED00, 0xE000EDF0
PRIVATE = 0xE0000000
"""Start of the core's own registers, which the simulator does not show to a debugger."""


class BoardMemory(MemoryInterface):
    """Memory of the simulated board, and the registers by which pyOCD finds and halts its core."""

    def __init__(self, server: str) -> None:
        self.board = open_probe(server)
        self.board.resume()
        self.registers = {ROM_TABLE: (SCS - ROM_TABLE) & 0xFFFFFFFF | 3, CPUID: 0x412FC230}
        for base, kind, part in ((ROM_TABLE, 1, 0x4000BB4C3), (SCS, 0xE, 0x4000BB000)):
            for index, value in enumerate((0x0D, kind << 4, 0x05, 0xB1)):
                self.registers[base + 0xFF0 + 4 * index] = value
            for index in range(4):
                self.registers[base + 0xFE0 + 4 * index] = part >> 8 * index & 0xFF
                self.registers[base + 0xFD0 + 4 * index] = part >> (32 + 8 * index) & 0xFF

    def write_memory(self, addr: int, data: int, transfer_size: int = 32, **_: Any) -> None:
        if addr == DHCSR:
            halt = bool(data & 2)
            self.board.halt() if halt else self.board.resume()
            self.registers[addr] = data & 0xFFFF | 1 << 16 | halt << 17
        elif addr >= PRIVATE:
            self.registers[addr] = data
        else:
            self.board.write(addr, data.to_bytes(transfer_size // 8, "little"))

    def read_memory(
        self, addr: int, transfer_size: int = 32, now: bool = True, **_: Any
    ) -> int | Callable[[], int]:
        if addr >= PRIVATE:
            word = self.registers.get(addr & ~3, 0)
            value = word >> 8 * (addr & 3) & ((1 << transfer_size) - 1)
        else:
            value = int.from_bytes(self.board.read(addr, transfer_size // 8), "little")
        return value if now else lambda: value

    def read_memory_block8(self, addr: int, size: int, **_: Any) -> Sequence[int]:
        return (
            [self.read_memory(addr + at, 8) for at in range(size)]
            if addr >= PRIVATE
            else [*self.board.read(addr, size)]
        )

    def read_memory_block32(self, addr: int, size: int, **_: Any) -> Sequence[int]:
        data = bytes(self.read_memory_block8(addr, 4 * size))
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def write_memory_block8(self, addr: int, data: Sequence[int], **_: Any) -> None:
        self.board.write(addr, bytes(data))

    def write_memory_block32(self, addr: int, data: Sequence[int], **_: Any) -> None:
        for index, word in enumerate(data):
            self.write_memory(addr + 4 * index, word)


class BoardProbe(DebugProbe):
    """An SWD probe with one access port."""

    server = ""
    vendor_name, product_name, unique_id = "simulated", "probe", "board1"
    supported_wire_protocols = (DebugProbe.Protocol.DEFAULT, DebugProbe.Protocol.SWD)
    wire_protocol = DebugProbe.Protocol.SWD
    capabilities: frozenset[Any] = frozenset()
    is_open = False

    @classmethod
    def get_all_connected_probes(
        cls, unique_id: str | None = None, is_explicit: bool = False
    ) -> list[BoardProbe]:
        return [cls()] if unique_id in (None, cls.unique_id) else []

    @classmethod
    def get_probe_with_id(cls, unique_id: str, is_explicit: bool = False) -> BoardProbe | None:
        return cls() if unique_id == cls.unique_id else None

    def open(self) -> None:
        self.memory, self.control, self.is_open = BoardMemory(self.server), 0, True

    def close(self) -> None:
        self.memory.board.close()
        self.is_open = False

    def read_dp(self, addr: int, now: bool = True) -> int | Callable[[], int]:
        powered = self.control | (self.control & (1 << 30 | 1 << 28)) << 1
        value = {0: 0x2BA01477, 4: powered}.get(addr, 0)
        return value if now else lambda: value

    def write_dp(self, addr: int, data: int) -> None:
        if addr == 4:
            self.control = data

    def read_ap(self, addr: int, now: bool = True) -> int | Callable[[], int]:
        registers = {0xFC: 0x24770011, 0xF8: ROM_TABLE | 3, 0: 0x23000052}
        value = registers.get(addr & 0xFF, 0) if addr >> 24 == 0 else 0
        return value if now else lambda: value

    def write_ap(self, addr: int, data: int) -> None:
        pass

    def get_memory_interface_for_ap(self, ap_address: Any) -> BoardMemory | None:
        return self.memory if ap_address.apsel == 0 else None

    def connect(self, protocol: Any = None) -> None:
        pass

    def disconnect(self) -> None:
        pass

    def set_clock(self, frequency: float) -> None:
        pass

    def flush(self) -> None:
        pass


if __name__ == "__main__":
    BoardProbe.server = sys.argv[1]
    PROBE_CLASSES.clear()
    PROBE_CLASSES["simulated"] = BoardProbe
    main(sys.argv[2:])
