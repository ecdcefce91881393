"""The core of a simulated board behind a debug access port: memory, and registers that halt it.

QEMU's gdbserver does the work. Registers of the core that a debugger uses (Armv7-M, part C) are
made up here, because the simulator does not show them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness import ProbeError
from harness.extensions.probes.debug_probe import GdbRemote
from harness.link.transports import parse_address

PRIVATE: Final = 0xE0000000
"""Start of the core's own registers."""
ROM_TABLE: Final = 0xE00FF000
SCS, FPB = 0xE000E000, 0xE0002000
COMPONENTS: Final = (
    *((0, SCS, 0xE, 0x4000BB000), (1, FPB, 0xE, 0x4000BB003)),
    (-1, ROM_TABLE, 1, 0x4000BB4C3),
)
"""Place in the ROM table, address, class and identification of the components."""
CPUID, AIRCR, DFSR = 0xE000ED00, 0xE000ED0C, 0xE000ED30
DHCSR, DCRSR, DCRDR, DEMCR = 0xE000EDF0, 0xE000EDF4, 0xE000EDF8, 0xE000EDFC
FP_CTRL, FP_COMP = FPB, FPB + 8
_BREAKPOINTS: Final = 6
_HALT, _STEP = 1 << 1, 1 << 2
_S_REGRDY, _S_HALT, _S_RESET_ST = 1 << 16, 1 << 17, 1 << 25
_HALTED, _BKPT, _VCATCH = 1, 2, 8
_SYSRESETREQ, _VC_CORERESET = 1 << 2, 1
_SIGTRAP: Final = b"05"
_REGISTERS: Final = {**{number: number for number in range(16)}, 16: 25, 17: 13}
"""Numbers of gdb by those of DCRSR; MSP is the stack pointer. Others read as 0."""
_LOOK_S: Final = 0.0005
_STEP_S: Final = 0.2


class SteeredBoard(GdbRemote):
    """A gdbserver's client that also reads and writes registers, steps, and keeps breakpoints."""

    def pause(self) -> bool:
        """Halt a running board; whether it had stopped at a breakpoint before."""
        self._send_raw(b"\x03")
        reply = self._stop_reply(self._timeout_s)
        assert reply is not None
        return reply[1:3] == _SIGTRAP

    def has_stopped(self) -> bool:
        """Whether a running board has come to a breakpoint."""
        return self._stop_reply(_LOOK_S) is not None

    @property
    def is_running(self) -> bool:
        return self._running

    def step(self) -> None:
        """Execute an instruction; a core that is asleep stays where it is."""
        self._send(b"s")
        self._running = True
        if self._stop_reply(_STEP_S) is None:
            self.pause()

    def register(self, number: int) -> int:
        return int.from_bytes(bytes.fromhex(self._request(b"p%x" % number).decode()), "little")

    def set_register(self, number: int, value: int) -> None:
        self._request(b"P%x=" % number + value.to_bytes(4, "little").hex().encode())

    def breakpoint(self, address: int, *, on: bool) -> None:
        self._request((b"Z" if on else b"z") + b"1,%x,2" % address)


class DebugCore:
    """Memory and registers behind an access port.

    The simulator has to stop for an access. So `settle` lets it go on when no access follows.
    """

    def __init__(self, server: str) -> None:
        network = parse_address(server)
        assert network is not None
        self.board = SteeredBoard(server, network)
        self.board.resume()
        self._runs = True  # as the debugger sees it
        self._was_reset = False
        self._breakpoints = [0] * _BREAKPOINTS
        self._registers = {CPUID: 0x412FC230, FP_CTRL: 1 << 28 | _BREAKPOINTS << 4}
        for place, base, kind, part in COMPONENTS:
            if base != ROM_TABLE:
                self._registers[ROM_TABLE + 4 * place] = (base - ROM_TABLE) & 0xFFFFFFFF | 3
            for index, value in enumerate((0x0D, kind << 4, 0x05, 0xB1)):
                self._registers[base + 0xFF0 + 4 * index] = value
            for index in range(4):
                self._registers[base + 0xFE0 + 4 * index] = part >> 8 * index & 0xFF
                self._registers[base + 0xFD0 + 4 * index] = part >> (32 + 8 * index) & 0xFF
        self._writers: dict[int, Callable[[int], None]] = {
            **{DHCSR: self._control, DCRSR: self._move_register, AIRCR: self._reset},
            DFSR: lambda value: self._set(DFSR, self._get(DFSR) & ~value),
            FP_CTRL: lambda value: self._set(FP_CTRL, self._get(FP_CTRL) & ~1 | value & 1),
        }

    def read(self, address: int, size: int) -> bytes:
        """Return memory, or whole registers."""
        if address < PRIVATE:
            self._pause()
            return self.board.read(address, size)
        words = range(address & ~3, address + size, 4)
        data = b"".join(self._word(word).to_bytes(4, "little") for word in words)
        return data[address & 3 :][:size]

    def write(self, address: int, data: bytes) -> None:
        """Write memory, or registers."""
        if address < PRIVATE:
            self._pause()
            self.board.write(address, data)
            return
        for at in range(0, len(data), 4):
            self._write_word(address + at, int.from_bytes(data[at : at + 4], "little"))

    def settle(self) -> None:
        """Let a core that runs go on after an access."""
        if self._runs and not self.board.is_running:
            self.board.resume()

    def close(self) -> None:
        """Let the board run, and disconnect."""
        self.board.close()

    def _get(self, address: int) -> int:
        return self._registers.get(address, 0)

    def _set(self, address: int, value: int) -> None:
        self._registers[address] = value

    def _pause(self) -> None:
        if self._runs and self.board.is_running and self.board.pause():
            self._stopped(_BKPT)

    def _stopped(self, reason: int) -> None:
        self._runs = False
        self._set(DFSR, self._get(DFSR) | reason)

    def _word(self, address: int) -> int:
        if address != DHCSR:
            return self._get(address)
        if self._runs and self.board.is_running and self.board.has_stopped():
            self._stopped(_BKPT)
        # A debug event sets C_HALT, too.
        status = _S_REGRDY | (0 if self._runs else _S_HALT | _HALT)
        status |= _S_RESET_ST if self._was_reset else 0
        self._was_reset = False
        return self._get(DHCSR) | status

    def _write_word(self, address: int, value: int) -> None:
        number = (address - FP_COMP) // 4
        if 0 <= number < _BREAKPOINTS:
            self._set_breakpoint(number, value)
        elif address in self._writers:
            self._writers[address](value)
        else:
            self._set(address, value)

    def _control(self, value: int) -> None:
        self._set(DHCSR, value & 0xFFFF)
        if value & _HALT:
            if self._runs:
                self._pause()
                self._stopped(_HALTED)
        elif value & _STEP:
            self.board.step()
            self._stopped(_HALTED)
        elif not self._runs:
            self._runs = True
            self.board.resume()

    def _move_register(self, value: int) -> None:
        number = _REGISTERS.get(value & 0x7F)
        if value >> 16 & 1:
            if number is not None:
                self.board.set_register(number, self._get(DCRDR))
        else:
            self._set(DCRDR, 0 if number is None else self.board.register(number))

    def _set_breakpoint(self, number: int, value: int) -> None:
        self._pause()
        old, new = ((word & ~1 if word & 1 else 0) for word in (self._breakpoints[number], value))
        self._breakpoints[number] = value
        self._set(FP_COMP + 4 * number, value)
        if old and old != new:
            self.board.breakpoint(old, on=False)
        if new and old != new:
            self.board.breakpoint(new, on=True)

    def _reset(self, value: int) -> None:
        if value & _SYSRESETREQ:
            self._pause()
            self.board.reset("system_reset")
            self._was_reset = True
            if self._get(DEMCR) & _VC_CORERESET:
                self._stopped(_VCATCH)


def readable(core: DebugCore, address: int, size: int) -> bytes | None:
    """Return memory of a core; None where there is none."""
    try:
        return core.read(address, size)
    except ProbeError:
        return None
