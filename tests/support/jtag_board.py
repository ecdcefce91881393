"""A JTAG adapter for OpenOCD (driver remote_bitbang), with a simulated Cortex-M3 on it.

    python jtag_board.py GDBSERVER

Prints its TCP port, and serves one client. OpenOCD's own JTAG, debug port, flash patch and core
code work as with a real adapter. This module has the other end of the wires: a test access port, a
debug port and a memory access port, as in Arm's "Debug Interface Architecture Specification ADIv5".
"""

from __future__ import annotations

import socket
import sys
from typing import Final

from tests.support.debug_core import ROM_TABLE, DebugCore, readable

# Next states of the test access port (IEEE 1149.1, figure 6-1) for TMS 0 and 1.
(RESET, IDLE, SELECT_DR, CAPTURE_DR, SHIFT_DR, EXIT1_DR, PAUSE_DR, EXIT2_DR, UPDATE_DR) = range(9)
(SELECT_IR, CAPTURE_IR, SHIFT_IR, EXIT1_IR, PAUSE_IR, EXIT2_IR, UPDATE_IR) = range(9, 16)
NEXT: Final = (
    *((IDLE, RESET), (IDLE, SELECT_DR), (CAPTURE_DR, SELECT_IR), (SHIFT_DR, EXIT1_DR)),
    *((SHIFT_DR, EXIT1_DR), (PAUSE_DR, UPDATE_DR), (PAUSE_DR, EXIT2_DR), (SHIFT_DR, UPDATE_DR)),
    *((IDLE, SELECT_DR), (CAPTURE_IR, RESET), (SHIFT_IR, EXIT1_IR), (SHIFT_IR, EXIT1_IR)),
    *((PAUSE_IR, UPDATE_IR), (PAUSE_IR, EXIT2_IR), (SHIFT_IR, UPDATE_IR), (IDLE, SELECT_DR)),
)
IDCODE, DPACC, APACC, BYPASS = 0xE, 0xA, 0xB, 0xF
LENGTHS: Final = {IDCODE: 32, DPACC: 35, APACC: 35, 0x8: 35, BYPASS: 1}
IR_LENGTH: Final = 4
OK: Final = 0b010
POWER: Final = 1 << 28 | 1 << 30
STICKY_ERROR: Final = 1 << 5
CSW, TAR, DRW = 0x00, 0x04, 0x0C
FIXED: Final = {0xF8: ROM_TABLE | 3, 0xFC: 0x24770011}
"""Registers of the access port that do not change: its ROM table, and what it is (AHB-AP)."""


class DebugPort:
    """A JTAG debug port with one access port, for the memory of a core."""

    def __init__(self, core: DebugCore) -> None:
        self._core = core
        self._control = self._select = self._sticky = 0
        self._csw, self._tar = 0x23000042, 0
        self.result = 0
        """Of the last read."""

    def access_dp(self, address: int, value: int, *, read: bool) -> None:
        if read:
            powered = self._control & POWER
            status = self._control | powered << 1 | self._sticky
            self.result = {4: status, 8: self._select, 12: self.result}.get(address, 0)
        elif address == 4:
            self._control = value & (POWER | 0xF00)
            self._sticky &= ~value
        elif address == 8:
            self._select = value

    def access_ap(self, address: int, value: int, *, read: bool) -> None:
        register = self._select & 0xF0 | address
        if self._select >> 24:
            self.result = 0
        elif register == DRW or register >> 4 == 1:
            self._access_memory(register, value, read)
        elif read:
            own = {CSW: self._csw, TAR: self._tar}
            self.result = own.get(register, FIXED.get(register, 0))
        elif register == CSW:
            # Without packed transfers: bits 5:4 are 0 or 1.
            self._csw = 0x23000040 | value & 0x17
        elif register == TAR:
            self._tar = value

    def _access_memory(self, register: int, value: int, read: bool) -> None:
        size = 4 if register != DRW else 1 << (self._csw & 3)
        place = self._tar if register == DRW else self._tar & ~0xF | register & 0xC
        shift = 8 * (place & 3) if size < 4 else 0
        if read:
            data = readable(self._core, place, size)
            if data is None:
                self._sticky |= STICKY_ERROR
            self.result = int.from_bytes(data or b"", "little") << shift
        else:
            self._core.write(place, (value >> shift & (1 << 8 * size) - 1).to_bytes(size, "little"))
        if register == DRW and self._csw & 0x10:
            self._tar = self._tar & ~0xFFF | (self._tar + size) & 0xFFF  # as a Cortex-M3


class TestAccessPort:
    """The state machine of JTAG, with the registers of a debug port."""

    def __init__(self, port: DebugPort) -> None:
        self._port = port
        self._state, self._instruction = RESET, IDCODE
        self._shifted, self._length, self._clock = 0, 1, False

    def feed(self, commands: bytes) -> tuple[bytes, bool]:
        """Carry out commands of remote_bitbang; return the answers, and whether the client left."""
        answers = bytearray()
        for command in commands:
            if 48 <= command < 56:  # '0' to '7': TCK, TMS, TDI
                if command >= 52:
                    if not self._clock:
                        self._rise(command >> 1 & 1, command & 1)
                    self._clock = True
                else:
                    self._clock = False
            elif command == 82:  # 'R'
                answers.append(48 + (self._shifted & 1))
            elif command == 81:  # 'Q'
                return bytes(answers), True
        return bytes(answers), False

    def _rise(self, tms: int, tdi: int) -> None:
        state = self._state
        if state in (SHIFT_DR, SHIFT_IR):
            self._shifted = self._shifted >> 1 | tdi << (self._length - 1)
        elif state == CAPTURE_IR:
            self._shifted, self._length = 1, IR_LENGTH
        elif state == CAPTURE_DR:
            self._length = LENGTHS.get(self._instruction, 1)
            self._shifted = {
                IDCODE: 0x4BA00477,
                DPACC: self._port.result << 3 | OK,
                APACC: self._port.result << 3 | OK,
            }.get(self._instruction, 0)
        self._state = NEXT[state][tms]
        if self._state == RESET:
            self._instruction = IDCODE
        elif self._state == UPDATE_IR:
            self._instruction = self._shifted
        elif self._state == UPDATE_DR and self._instruction in (DPACC, APACC):
            access = self._port.access_dp if self._instruction == DPACC else self._port.access_ap
            access((self._shifted & 6) << 1, self._shifted >> 3, read=bool(self._shifted & 1))


def serve(server: str) -> None:
    core = DebugCore(server)
    port = TestAccessPort(DebugPort(core))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    left = False
    while not left and (commands := client.recv(65536)):
        answers, left = port.feed(commands)
        core.settle()
        client.sendall(answers)
    core.close()


if __name__ == "__main__":
    serve(sys.argv[1])
