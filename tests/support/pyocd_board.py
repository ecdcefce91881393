"""pyOCD with a debug probe that finds a simulated board: accesses go to QEMU's gdbserver.

    python pyocd_board.py GDBSERVER pyocd ARGUMENTS...
    python pyocd_board.py GDBSERVER etharness ARGUMENTS... [then ARGUMENTS...]

pyOCD's own session, discovery of components, control of the core, gdbserver and RTT server run as
with a real probe. Only registers of the debug port and of the core are made up.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import pyocd.__main__
from pyocd.core.exceptions import TransferFaultError
from pyocd.core.memory_interface import MemoryInterface
from pyocd.probe.aggregator import PROBE_CLASSES
from pyocd.probe.debug_probe import DebugProbe

import harness.cli
from harness import ProbeError
from tests.support.debug_core import ROM_TABLE, DebugCore


class BoardMemory(MemoryInterface):
    """Memory of the simulated board, and the registers by which pyOCD finds and halts its core."""

    def __init__(self, server: str) -> None:
        self.core = DebugCore(server)
        self._alone = threading.RLock()  # pyOCD polls from several threads

    @contextmanager
    def _access(self) -> Iterator[DebugCore]:
        with self._alone:
            try:
                yield self.core
            except ProbeError as error:
                raise TransferFaultError(error.message) from error
            finally:
                self.core.settle()

    def write_memory(self, addr: int, data: int, transfer_size: int = 32, **_: Any) -> None:
        with self._access() as core:
            core.write(addr, data.to_bytes(transfer_size // 8, "little"))

    def read_memory(
        self, addr: int, transfer_size: int = 32, now: bool = True, **_: Any
    ) -> int | Callable[[], int]:
        with self._access() as core:
            value = int.from_bytes(core.read(addr, transfer_size // 8), "little")
        return value if now else lambda: value

    def read_memory_block8(self, addr: int, size: int, **_: Any) -> Sequence[int]:
        with self._access() as core:
            return [*core.read(addr, size)]

    def read_memory_block32(self, addr: int, size: int, **_: Any) -> Sequence[int]:
        data = bytes(self.read_memory_block8(addr, 4 * size))
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def write_memory_block8(self, addr: int, data: Sequence[int], **_: Any) -> None:
        with self._access() as core:
            core.write(addr, bytes(data))

    def write_memory_block32(self, addr: int, data: Sequence[int], **_: Any) -> None:
        self.write_memory_block8(addr, b"".join(word.to_bytes(4, "little") for word in data))


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
        self.memory.core.close()
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
    _, _, program, *arguments = sys.argv
    if program == "pyocd":
        sys.exit(pyocd.__main__.PyOCDTool().run(arguments))
    # One after the other, as importing pyOCD takes longer than each of them.
    while arguments:
        command = [*takewhile("then".__ne__, arguments)]
        arguments = arguments[len(command) + 1 :]
        try:
            harness.cli.main(command)
        except SystemExit as ended:
            if ended.code:
                raise
