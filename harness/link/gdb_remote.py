"""Client of a gdbserver: memory, halting and breakpoints of a board behind a debug probe.

The protocol is that of "Debugging with GDB", appendix E. Servers differ in what they do to a
running board when a client connects, so the board is always halted after the handshake.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from typing import Final, Self

from harness.errors import HarnessError, PortError, ProbeError, TargetError
from harness.link.ports import NetworkPort, connect
from harness.link.probe import ProbeStatistics, record_halt

_log = logging.getLogger(__name__)

_BREAK: Final = b"\x03"
_STOPS: Final = (b"T", b"S")
_ENDS: Final = (b"W", b"X")
_SMALL_PACKET: Final = 400
"""Bytes of a packet that every server accepts; used if it does not state its own limit."""
_LARGEST_READ: Final = 16384
MOST_PACKET: Final = 1 << 20
"""Largest packet of a server, and most text that a command may print, bytes."""
_REPEAT: Final = re.compile(rb"(.)\*(.)", re.DOTALL)
_HEXADECIMAL: Final = re.compile(rb"(?:[0-9a-fA-F]{2})+")
_FAILED: Final = re.compile(
    r"^(error|transfer failed|unexpected error)\b|unknown command|invalid command", re.IGNORECASE
)
"""Texts by which pyOCD, QEMU and OpenOCD say that a command failed."""
_REPEAT_BASE: Final = 29
"""Added to the repeat count of a run, so that it is a printable character."""
_PROGRAM_COUNTERS: Final = {b"arm": 15, b"riscv": 32}
"""Number of the program counter by architecture, in gdb's own numbering."""


class GdbRemote:
    """A connection to a gdbserver. The board is halted once it is open, and runs after `close`.

    Attributes:
        statistics: What was done to the board.
    """

    def __init__(self, address: str, network: NetworkPort) -> None:
        """Connect and halt the board.

        Raises:
            ProbeError: There is no gdbserver, or it does not answer in time.
        """
        self.statistics = ProbeStatistics()
        self._address, self._timeout_s = address, network.timeout_s
        try:
            self._socket = connect(
                network,
                f"cannot connect to the gdbserver {address}",
                "check that OpenOCD, pyOCD, J-Link's GDB server or QEMU (-gdb tcp::3333) runs "
                "there, and that no debugger is connected",
            )
        except PortError as error:
            raise ProbeError(error.message, hint=error.hint) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._acknowledge = True
        self._running = True
        self._breakpoint: bytes | None = None
        self._halted_at = time.monotonic()
        try:
            self._shake_hands()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def halt(self) -> None:
        """Halt the board; nothing happens if it is halted.

        Raises:
            ProbeError: It did not halt in time.
            TargetError: The program on it has ended.
        """
        if not self._running:
            return
        self._send_raw(_BREAK)
        if self._stop_reply(self._timeout_s) is None:
            raise ProbeError(
                f"the board behind {self._address} did not halt within {self._timeout_s:g} s",
                hint="check its power and wiring, and that the gdbserver can halt it: a core that "
                "is asleep or locked up may need `connect under reset`",
            )

    def resume(self) -> None:
        """Let the board run; nothing happens if it runs.

        Raises:
            ProbeError: The connection ended.
        """
        if not self._running:
            self._send(b"c")
            self._running = True
            record_halt(self.statistics, self._halted_at)

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the halted board.

        Raises:
            ProbeError: The memory cannot be read.
        """
        parts = []
        while size > 0:
            wanted = min(size, self._chunk)
            reply = self._request(b"m%x,%x" % (address, wanted))
            try:
                part = bytes.fromhex(reply.decode("ascii"))
            except ValueError:
                part = b""
            if not part or len(part) > wanted:
                raise ProbeError(
                    f"{self._address} cannot read {wanted} bytes of memory at {address:#x}: "
                    f"{_quoted(reply)}",
                    hint="check that --elf is the firmware that runs on the board",
                )
            parts.append(part)
            address += len(part)
            size -= len(part)
            self.statistics.bytes_read += len(part)
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write memory of the halted board.

        Raises:
            ProbeError: The memory cannot be written.
        """
        for begin in range(0, len(data), self._chunk):
            part = data[begin : begin + self._chunk]
            reply = self._request(b"M%x,%x:" % (address + begin, len(part)) + part.hex().encode())
            if reply != b"OK":
                raise ProbeError(
                    f"{self._address} cannot write {len(part)} bytes of memory at "
                    f"{address + begin:#x}: {_quoted(reply)}"
                )

    def run_to(self, address: int, timeout_s: float) -> None:
        """Let the board run until it is about to execute ``address``; it is halted then.

        Raises:
            TargetError: It stopped elsewhere, or did not get there in time.
            ProbeError: The probe failed, or has no free breakpoint.
        """
        self.halt()
        if self._program_counter() == address:
            self._step()  # a breakpoint here would stop it at once
        self._set_breakpoint(address)
        self.resume()
        try:
            stopped = self._stop_reply(timeout_s)
            if stopped is None:
                self.halt()
                raise TargetError(
                    f"the board behind {self._address} did not reach {address:#x} within "
                    f"{timeout_s:g} s; it is at {self._place()}"
                )
        finally:
            if not self._running:
                self._clear_breakpoint()
        if self._program_counter() not in (address, None):
            raise TargetError(
                f"the board behind {self._address} stopped at {self._place()} instead of "
                f"{address:#x} ({_quoted(stopped)})",
                hint="it may have faulted, or another debugger has set a breakpoint",
            )

    def reset(self, command: str) -> None:
        """Reset the board by a command of the gdbserver, as gdb's ``monitor`` sends it; then halt.

        Raises:
            ProbeError: The server refused the command, or the board did not halt.
        """
        self.halt()
        reply, text = self._command(command)
        if reply != b"OK" or _FAILED.search(text):
            raise ProbeError(
                f"{self._address} refused the command {command!r}: {text or _quoted(reply)}",
                hint="use 'reset halt' for OpenOCD and pyOCD, 'reset' for J-Link, 'system_reset' "
                "for QEMU",
            )

    def close(self) -> None:
        """Remove the breakpoint, detach, so that the board runs, and disconnect; never raises.

        A gdbserver whose client disconnects without detaching may leave the board halted.
        """
        try:
            self.halt()
            self._clear_breakpoint()
            # OpenOCD leaves a board halted that it is detached from. Other servers do not know this
            # command, and let the board run when they detach.
            with contextlib.suppress(ProbeError):
                self._command("resume")
            # A reply to a request that was cut short may still be under way.
            self._send(b"D")
            self._running = True
            record_halt(self.statistics, self._halted_at)
            deadline = time.monotonic() + self._timeout_s
            while self._packet(deadline) not in (b"OK", b""):
                pass
        except (ProbeError, TargetError, TimeoutError) as error:
            why = error.message if isinstance(error, HarnessError) else "no answer"
            _log.warning("the board behind %s may be left halted: %s", self._address, why)
        finally:
            with contextlib.suppress(OSError):
                self._socket.close()

    def _shake_hands(self) -> None:
        """Agree on packets, and find out whether the board is halted; then it is."""
        self._send(b"?")
        stopped = self._stop_reply(min(1.0, self._timeout_s))
        if stopped is None:
            # Some servers answer `?` of a running board only when it has stopped.
            self._send_raw(_BREAK)
            if self._stop_reply(self._timeout_s) is None:
                raise ProbeError(
                    f"{self._address} does not answer as a gdbserver within {self._timeout_s:g} s",
                    hint="check the port: OpenOCD serves gdb at 3333, telnet at 4444, Tcl at 6666",
                )
        features = self._request(b"qSupported:swbreak+;hwbreak+").split(b";")
        sizes = [feature[11:] for feature in features if feature.startswith(b"PacketSize=")]
        packet = int(sizes[0], 16) if sizes else _SMALL_PACKET
        # Of a packet, 4 bytes are its frame and some the header of a write.
        self._chunk = max(16, min((packet - 32) // 2, _LARGEST_READ))
        if b"QStartNoAckMode+" in features and self._request(b"QStartNoAckMode") == b"OK":
            self._acknowledge = False
        self._pc = self._find_program_counter(features)

    def _command(self, command: str) -> tuple[bytes, str]:
        """Send a command of the server, as gdb's ``monitor``; return its reply, and what it prints.

        Raises:
            ProbeError: There is no reply in time.
        """
        printed = b""
        reply = self._request(b"qRcmd," + command.encode().hex().encode())
        deadline = time.monotonic() + self._timeout_s
        while reply.startswith(b"O") and reply != b"OK":  # text to print, in hexadecimal
            printed += bytes.fromhex(reply[1:].decode("ascii", "replace"))
            self._check_size(len(printed), "printed for one command")
            try:
                reply = self._packet(deadline)
            except TimeoutError:
                break
        if _HEXADECIMAL.fullmatch(reply):  # text to print instead of OK, as pyOCD sends it
            printed, reply = printed + bytes.fromhex(reply.decode("ascii")), b"OK"
        return reply, printed.decode("utf-8", "replace").strip()

    def _find_program_counter(self, features: list[bytes]) -> int | None:
        """Return the number of the program counter; None if the architecture is not known."""
        if b"qXfer:features:read+" not in features:
            return _PROGRAM_COUNTERS[b"arm"]
        description = self._request(b"qXfer:features:read:target.xml:0,200")
        for name, number in _PROGRAM_COUNTERS.items():
            if name in description:
                return number
        return None

    def _program_counter(self) -> int | None:
        """Return the program counter; None if the server does not tell."""
        if self._pc is None:
            return None
        reply = self._request(b"p%x" % self._pc)
        if not reply:  # pyOCD 0.46 has only `g`, all registers
            reply = self._request(b"g")[8 * self._pc :][:8]
        try:
            return int.from_bytes(bytes.fromhex(reply.decode("ascii")), "little") or None
        except ValueError:
            return None

    def _place(self) -> str:
        counter = self._program_counter()
        return "an unknown address" if counter is None else f"{counter:#x}"

    def _step(self) -> None:
        self._send(b"s")
        self._running = True
        if self._stop_reply(self._timeout_s) is None:
            raise ProbeError(f"{self._address} did not step within {self._timeout_s:g} s")

    def _set_breakpoint(self, address: int) -> None:
        # The kind is the size of an instruction: 2 bytes on Thumb and compressed RISC-V.
        for kind in (b"1", b"0"):  # of the hardware first, because code is usually in flash
            body = kind + b",%x,2" % address
            if self._request(b"Z" + body) == b"OK":
                self._breakpoint = body
                return
        raise ProbeError(
            f"{self._address} cannot set a breakpoint at {address:#x}",
            hint="remove breakpoints of other debuggers: a core has only a few",
        )

    def _clear_breakpoint(self) -> None:
        if self._breakpoint is not None:
            body, self._breakpoint = self._breakpoint, None
            self._request(b"z" + body)

    def _stop_reply(self, timeout_s: float) -> bytes | None:
        """Wait until the board has halted; None on timeout.

        Raises:
            TargetError: The program on it has ended, as QEMU reports an exit by semihosting.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                packet = self._packet(deadline)
            except TimeoutError:
                return None
            if packet.startswith(_ENDS):
                raise TargetError(f"the program behind {self._address} ended: {_quoted(packet)}")
            if packet.startswith(_STOPS):
                self._running = False
                self._halted_at = time.monotonic()
                return packet

    def _request(self, body: bytes) -> bytes:
        """Send a request and return its reply.

        A stop reply is skipped: QEMU sends one that nobody asked for when a client connects. So is
        text to print, unless a command asked for it: OpenOCD sends an empty one while a slow
        adapter keeps it busy.

        Raises:
            ProbeError: There is no reply in time.
        """
        self.statistics.requests += 1
        self._send(body)
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                packet = self._packet(deadline)
            except TimeoutError:
                raise ProbeError(
                    f"{self._address} did not answer {_quoted(body[:20])} within "
                    f"{self._timeout_s:g} s",
                    hint="check that the board has power and the probe is connected; a slow probe "
                    "needs ?timeout=SECONDS behind its address",
                ) from None
            printed = packet.startswith(b"O") and packet != b"OK" and not body.startswith(b"qRcmd")
            if not packet.startswith(_STOPS) and not printed:
                return packet

    def _send(self, body: bytes) -> None:
        self._send_raw(b"$%s#%02x" % (body, sum(body) & 0xFF))

    def _send_raw(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(data)
        except OSError as error:
            raise self._ended(error) from error

    def _packet(self, deadline: float) -> bytes:
        """Return the next intact packet, without its frame.

        Raises:
            TimeoutError: There is none before the deadline.
            ProbeError: The connection ended.
        """
        while True:
            begin = self._received.find(b"$")
            end = self._received.find(b"#", begin)
            if begin < 0 or end < 0 or len(self._received) < end + 3:
                self._receive(deadline)
                continue
            body, check = self._received[begin + 1 : end], self._received[end + 1 : end + 3]
            self._received = self._received[end + 3 :]
            intact = check == b"%02x" % (sum(body) & 0xFF)
            if self._acknowledge:
                self._send_raw(b"+" if intact else b"-")
            if intact:
                return _expanded(body)

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        try:
            self._socket.settimeout(left)
            data = self._socket.recv(65536)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._ended(error) from error
        if not data:
            raise self._ended("it closed the connection")
        self._received += data
        self._check_size(len(self._received), "sent no whole packet in")

    def _check_size(self, size: int, what: str) -> None:
        if size > MOST_PACKET:
            raise ProbeError(
                f"{self._address} {what} {size:,} bytes: it is no gdbserver, or it is broken",
                hint="check the port: OpenOCD serves gdb at 3333, telnet at 4444, Tcl at 6666",
            )

    def _ended(self, why: object) -> ProbeError:
        return ProbeError(
            f"the connection to the gdbserver {self._address} ended: {why}",
            hint="check whether the gdbserver still runs, and its output; most accept one client",
        )


def _expanded(body: bytes) -> bytes:
    """Return a reply without run-length encoding: a character, ``*`` and a count."""
    if b"*" not in body:
        return body
    return _REPEAT.sub(lambda run: run[1] * (run[2][0] - _REPEAT_BASE + 1), body)


def _quoted(reply: bytes) -> str:
    text = reply.decode("ascii", "backslashreplace")
    return repr(text) if text else "not supported"
