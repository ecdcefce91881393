"""Debug probe: reads and writes the memory of a board, halts it and lets it go.

    gdb://host:port        any gdbserver: OpenOCD, pyOCD, J-Link, probe-rs, QEMU
    pyocd://[PROBE]        a probe of this host through pyOCD; PROBE is its unique id

Both may end in ``?timeout=SECONDS``, the longest wait for an answer, and ``pyocd://`` in
``?target=NAME``, the chip as pyOCD calls it.

The protocol of gdbservers is that of "Debugging with GDB", appendix E. Servers differ in what they
do to a running board when a client connects, so the board is always halted after the handshake.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from harness.errors import HarnessError, PortError, ProbeError, TargetError, UsageError
from harness.link.transports import NetworkPort, connect, is_probe, parse_address, parse_timeout
from harness.plugins import require


@dataclass
class ProbeStatistics:
    """What a probe did to a board.

    Attributes:
        halts: Number of halts.
        halted_s: Time between a halt and its end, as the host sees it, seconds.
        longest_halt_s: The longest of these, seconds.
        bytes_read: Bytes of memory read.
        requests: Requests sent to the probe.
    """

    halts: int = 0
    halted_s: float = 0.0
    longest_halt_s: float = 0.0
    bytes_read: int = 0
    requests: int = 0


@contextmanager
def halted(probe: DebugProbe) -> Iterator[None]:
    """Halt the board, and let it run at the end, also after an error."""
    probe.halt()
    try:
        yield
    finally:
        probe.resume()


def record_halt(statistics: ProbeStatistics, began: float) -> None:
    """Count a halt that began at ``began`` of the monotonic clock and ends now."""
    seconds = time.monotonic() - began
    statistics.halts += 1
    statistics.halted_s += seconds
    statistics.longest_halt_s = max(statistics.longest_halt_s, seconds)


def attach(connection: socket.socket, name: str) -> GdbRemote:
    """Return a connection to a gdbserver by a connected socket, as QEMU offers one on a path.

    Args:
        connection: The socket, which is closed with the result.
        name: What it is, for messages.

    Raises:
        ProbeError: It does not answer in time.
    """
    return GdbRemote(name, connection)


def open_probe(address: str) -> DebugProbe:
    """Connect to a debug probe by its address (see above). The board may be halted afterwards.

    Raises:
        UsageError: The address is invalid, or a package is missing.
        ProbeError: The probe cannot be reached, or does not answer.
    """
    if not is_probe(address):
        raise UsageError(
            f"{address!r} is not the address of a debug probe",
            hint="use gdb://host:port or pyocd://",
        )
    if address.startswith("pyocd://"):
        return PyocdProbe(address)
    network = parse_address(address)
    assert network is not None
    return GdbRemote(address, network)


_log = logging.getLogger(__name__)

_BREAK: Final = b"\x03"
_STOPS: Final = (b"T", b"S")
_ENDS: Final = (b"W", b"X")
_SMALL_PACKET: Final = 400
"""Bytes of a packet that every server accepts; used if it does not state its own limit."""
_LARGEST_READ: Final = 16384
MOST_PACKET: Final = 1 << 20
"""Largest packet of a server, and most text that a command may print, bytes."""
_STEP: Final = 4096
"""Bytes of memory that may take as long as one answer; the whole transfer must not take longer."""
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
_FIRST_ARGUMENTS, _RETURN_ADDRESSES = {15: 0, 32: 10}, {15: 14, 32: 1}
"""Numbers of the registers of calls, by that of the program counter."""


_LOCAL_TIMEOUT_S: Final = 10.0
"""Longest wait for an answer of a gdbserver that was not named by an address, seconds."""


def _connected(address: str, network: NetworkPort) -> socket.socket:
    try:
        connection = connect(
            network,
            f"cannot connect to the gdbserver {address}",
            "check that OpenOCD, pyOCD, J-Link's GDB server or QEMU (-gdb tcp::3333) runs "
            "there, and that no debugger is connected",
        )
    except PortError as error:
        raise ProbeError(error.message, hint=error.hint) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class GdbRemote:
    """A connection to a gdbserver. The board is halted once it is open, and runs after `close`.

    Attributes:
        statistics: What was done to the board.
    """

    def __init__(self, address: str, network: NetworkPort | socket.socket) -> None:
        """Connect, unless ``network`` is a connection, and halt the board.

        Raises:
            ProbeError: There is no gdbserver, or it does not answer in time.
        """
        self.statistics = ProbeStatistics()
        self._address, self._timeout_s = address, _LOCAL_TIMEOUT_S
        if isinstance(network, socket.socket):
            self._socket = network
        else:
            self._timeout_s = network.timeout_s
            self._socket = _connected(address, network)
        self._received = b""
        self._acknowledge = True
        self._running = True
        self._breakpoints: dict[int, bytes] = {}
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
        ends_at = self._ends_at(size)
        while size > 0:
            wanted = min(size, self._chunk)
            reply = self._request(b"m%x,%x" % (address, wanted), ends_at)
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
        ends_at = self._ends_at(len(data))
        for begin in range(0, len(data), self._chunk):
            part = data[begin : begin + self._chunk]
            body = b"M%x,%x:" % (address + begin, len(part)) + part.hex().encode()
            reply = self._request(body, ends_at)
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
        self.watch((address,))
        try:
            self._run_on(timeout_s)
        finally:
            if not self._running:
                self.watch(())

    def watch(self, addresses: Collection[int]) -> None:
        """Have breakpoints at these addresses of the halted board, and at no others.

        Raises:
            ProbeError: The probe failed, or has no free breakpoint.
        """
        for address in self._breakpoints.keys() - set(addresses):
            self._request(b"z" + self._breakpoints.pop(address))
        for address in addresses:
            if address not in self._breakpoints:
                self._set_breakpoint(address)

    def run_to_watched(self, timeout_s: float) -> int:
        """Let the halted board run until it is about to execute a watched address; return it.

        Raises:
            TargetError: It stopped elsewhere, or at none in time.
            ProbeError: The probe failed.
        """
        body = self._breakpoints.get(self._program_counter() or -1)
        if body is not None:  # it would stop here at once
            self._request(b"z" + body)
            self._step()
            self._request(b"Z" + body)
        return self._run_on(timeout_s)

    def step(self) -> int:
        """Execute one instruction of the halted board; return the address of the next.

        Raises:
            ProbeError: The probe failed, or the server does not tell the address.
        """
        self._step()
        return self._required(self._program_counter())

    def argument(self) -> int:
        """Return the first argument of a function that the halted board is about to execute."""
        return self._required(self._register(_FIRST_ARGUMENTS.get(self._pc or 0)))

    def return_address(self) -> int:
        """Return the address to which such a function returns."""
        return self._required(self._register(_RETURN_ADDRESSES.get(self._pc or 0))) & ~1

    def _required(self, value: int | None) -> int:
        if value is None:
            raise ProbeError(f"{self._address} does not tell the registers of the core")
        return value

    def _run_on(self, timeout_s: float) -> int:
        """Let the board run to a breakpoint, and return its address."""
        self.resume()
        stopped = self._stop_reply(timeout_s)
        names = " or ".join(f"{address:#x}" for address in self._breakpoints)
        if stopped is None:
            self.halt()
            raise TargetError(
                f"the board behind {self._address} did not reach {names} within "
                f"{timeout_s:g} s; it is at {self._place()}"
            )
        counter = self._program_counter()
        if counter is not None and counter not in self._breakpoints:
            raise TargetError(
                f"the board behind {self._address} stopped at {counter:#x} instead of "
                f"{names} ({_quoted(stopped)})",
                hint="it may have faulted, or another debugger has set a breakpoint",
            )
        return counter or next(iter(self._breakpoints))

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
            self.watch(())
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
        try:
            packet = int(sizes[0], 16) if sizes else _SMALL_PACKET
        except ValueError:
            raise self._nonsense(b"PacketSize=" + sizes[0]) from None
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
            if not _HEXADECIMAL.fullmatch(reply[1:]) and reply != b"O":
                raise self._nonsense(reply)
            printed += bytes.fromhex(reply[1:].decode("ascii"))
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
        return self._register(self._pc) or None

    def _register(self, number: int | None) -> int | None:
        """Return a register by gdb's number; None if the server does not tell."""
        if number is None:
            return None
        reply = self._request(b"p%x" % number)
        if not reply:  # pyOCD 0.46 has only `g`, all registers
            reply = self._request(b"g")[8 * number :][:8]
        try:
            return int.from_bytes(bytes.fromhex(reply.decode("ascii")), "little") if reply else None
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
                self._breakpoints[address] = body
                return
        raise ProbeError(
            f"{self._address} cannot set a breakpoint at {address:#x}",
            hint="remove breakpoints of other debuggers: a core has only a few",
        )

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

    def _ends_at(self, size: int) -> float:
        """Return until when ``size`` bytes of memory may take, however many requests they need."""
        return time.monotonic() + self._timeout_s * (1 + size / _STEP)

    def _request(self, body: bytes, ends_at: float = math.inf) -> bytes:
        """Send a request and return its reply, which must come before ``ends_at``.

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
                packet = self._packet(min(deadline, ends_at))
            except TimeoutError:
                why = f"did not answer {_quoted(body[:20])} within {self._timeout_s:g} s"
                if ends_at < deadline:
                    rate = _STEP / self._timeout_s
                    why = f"transfers memory too slowly, less than {rate:,.0f} bytes/s"
                raise ProbeError(
                    f"{self._address} {why}",
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

    def _nonsense(self, reply: bytes) -> ProbeError:
        return ProbeError(
            f"{self._address} sent {_quoted(reply[:40])} for a number or a text in hexadecimal",
            hint="check that a gdbserver listens there, and no other program",
        )

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


_POLL_S: Final = 0.005


class PyocdProbe:
    """A board behind a debug probe of this host. It runs after `close`.

    Attributes:
        statistics: What was done to the board.
    """

    def __init__(self, address: str) -> None:
        """Connect without a reset; the board runs on.

        Raises:
            UsageError: The address is invalid, or pyOCD is not installed.
            ProbeError: There is no such probe, or it finds no board.
        """
        self.statistics = ProbeStatistics()
        self._address = address
        url = urlsplit(address)
        options = dict(parse_qsl(url.query))
        chip = options.pop("target", "")
        self._timeout_s = parse_timeout(address, options)
        helpers, sessions, exceptions, targets = require(
            "flash",
            "pyocd://",
            "pyocd.core.helpers",
            "pyocd.core.session",
            "pyocd.core.exceptions",
            "pyocd.core.target",
        )
        self._error: type[Exception] = exceptions.Error
        self._kinds = targets.Target
        self._halted_at: float | None = None
        self._breakpoints: set[int] = set()
        with self._errors("connect"):
            probes = helpers.ConnectHelper.get_all_connected_probes(
                blocking=False, unique_id=url.netloc or None, print_wait_message=False
            )
            probe = self._only(probes)
            self._session = sessions.Session(
                probe,
                connect_mode="attach",  # a reset would clear the trace
                resume_on_disconnect=True,
                auto_unlock=False,  # unlocking a chip erases it
                **({"target_override": chip} if chip else {}),
            )
            self._session.open()
        self._target = self._session.target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def halt(self) -> None:
        """Halt the board; nothing happens if it is halted.

        Raises:
            ProbeError: It did not halt in time.
        """
        if self._halted_at is not None:
            return
        with self._errors("halt the board"):
            self._target.halt()
            if not self._stopped_within(self._timeout_s):
                raise ProbeError(
                    f"the board behind {self._address} did not halt within {self._timeout_s:g} s",
                    hint="check its power and wiring",
                )

    def resume(self) -> None:
        """Let the board run; nothing happens if it runs.

        Raises:
            ProbeError: The probe failed.
        """
        if self._halted_at is not None:
            with self._errors("let the board run"):
                self._target.resume()
            record_halt(self.statistics, self._halted_at)
            self._halted_at = None

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the board.

        Raises:
            ProbeError: The memory cannot be read.
        """
        with self._errors(f"read {size} bytes of memory at {address:#x}"):
            data = bytes(self._target.read_memory_block8(address, size))
        self.statistics.requests += 1
        self.statistics.bytes_read += len(data)
        return data

    def write(self, address: int, data: bytes) -> None:
        """Write memory of the board.

        Raises:
            ProbeError: The memory cannot be written.
        """
        self.statistics.requests += 1
        with self._errors(f"write {len(data)} bytes of memory at {address:#x}"):
            self._target.write_memory_block8(address, list(data))

    def run_to(self, address: int, timeout_s: float) -> None:
        """Let the board run until it is about to execute ``address``; it is halted then.

        Raises:
            TargetError: It stopped elsewhere, or did not get there in time.
            ProbeError: The probe failed, or has no free breakpoint.
        """
        self.halt()
        with self._errors(f"run to {address:#x}"):
            if self._target.read_core_register("pc") == address:
                self._target.step()  # a breakpoint here would stop it at once
            self.watch((address,))
            try:
                self._run_on(timeout_s)
            finally:
                self.watch(())

    def watch(self, addresses: Collection[int]) -> None:
        """Have breakpoints at these addresses of the halted board, and at no others.

        Raises:
            ProbeError: The probe failed, or has no free breakpoint.
        """
        with self._errors("set breakpoints"):
            for address in self._breakpoints - set(addresses):
                self._target.remove_breakpoint(address)
                self._breakpoints.discard(address)
            for address in set(addresses) - self._breakpoints:
                if not self._target.set_breakpoint(address, self._kinds.BreakpointType.HW):
                    raise ProbeError(f"{self._address} has no free breakpoint for {address:#x}")
                self._breakpoints.add(address)

    def run_to_watched(self, timeout_s: float) -> int:
        """Let the halted board run until it is about to execute a watched address; return it.

        Raises:
            TargetError: It stopped elsewhere, or at none in time.
            ProbeError: The probe failed.
        """
        with self._errors("run"):
            if self._target.read_core_register("pc") in self._breakpoints:
                self._target.step()  # pyOCD masks the breakpoint that it is at
            return self._run_on(timeout_s)

    def step(self) -> int:
        """Execute one instruction of the halted board; return the address of the next."""
        with self._errors("step"):
            self._target.step()
            return int(self._target.read_core_register("pc"))

    def argument(self) -> int:
        """Return the first argument of a function that the halted board is about to execute."""
        with self._errors("read a register"):
            return int(self._target.read_core_register("r0"))

    def return_address(self) -> int:
        """Return the address to which such a function returns."""
        with self._errors("read a register"):
            return int(self._target.read_core_register("lr")) & ~1

    def _run_on(self, timeout_s: float) -> int:
        """Let the board run to a breakpoint, and return its address."""
        self.resume()
        reached = self._stopped_within(timeout_s)
        self.halt()
        pc = int(self._target.read_core_register("pc"))
        if not reached or pc not in self._breakpoints:
            names = " or ".join(f"{address:#x}" for address in sorted(self._breakpoints))
            raise TargetError(
                f"the board behind {self._address} did not reach {names} within "
                f"{timeout_s:g} s; it is at {pc:#x}"
            )
        return pc

    def reset(self, command: str) -> None:
        """Reset the board and halt it; ``command`` is for gdbservers and ignored here.

        Raises:
            ProbeError: The board did not halt.
        """
        _log.debug("reset by pyOCD instead of the command %r", command)
        with self._errors("reset the board"):
            self._target.reset_and_halt()
            self._halted_at = time.monotonic()

    def close(self) -> None:
        """Remove the breakpoint, let the board run, and disconnect; never raises."""
        try:
            with self._errors("disconnect"):
                self.watch(())
                self.resume()
                self._session.close()
        except ProbeError as error:
            _log.warning("the board behind %s may be left halted: %s", self._address, error.message)

    def _only(self, found: list[Any]) -> Any:
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{probe.unique_id} ({probe.description})" for probe in found)
        raise ProbeError(
            f"{self._address}: {len(found)} debug probes found" + (f": {names}" if names else ""),
            hint="name one as pyocd://UNIQUE-ID; `pyocd list` lists them",
        )

    def _stopped_within(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not self._target.is_halted():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        self._halted_at = time.monotonic()
        return True

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Turn errors of pyOCD into ProbeError."""
        try:
            yield
        except self._error as error:
            raise ProbeError(
                f"{self._address} cannot {action}: {error}",
                hint="check power, wiring and permissions of the probe; name the chip with "
                "?target=NAME (`pyocd list --targets`)",
            ) from error


DebugProbe = GdbRemote | PyocdProbe
"""A connection to a debug probe. Addresses and sizes are bytes, times are seconds."""
