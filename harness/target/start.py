"""Starts targets: processes of this host, machines in QEMU, cores in Verilator, serial ports.

A simulator's UART is a TCP connection to us: on a pseudo-terminal those of QEMU sometimes held back
the last byte of a frame.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

from harness.capped import CappedBuffer
from harness.config.board import Board, NativeTarget, QemuTarget, RtlTarget, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import HarnessError, InfrastructureError, TargetError, UsageError
from harness.interrupts import deferred
from harness.link.transports import (
    EmulatedUart,
    SerialTransport,
    SocketTransport,
    Transport,
    open_serial,
)
from harness.target.build import Firmware, require_linux_host
from harness.target.drain import Drain, start_drain
from harness.target.process_group import exit_text, with_death_signal
from harness.target.serial_port import open_serial_port

_LINK: Final = re.compile(rb"^link: (\S+)\r?\n", re.MULTILINE)
_BAUD: Final = 115_200
"""A pseudo-terminal has a baud rate, but ignores it."""
_TERMINATE_S: Final = 1.0
_DYING_S: Final = 1.0
"""Longest time between the end of a program's streams and its exit."""
_POLL_S: Final = 0.005
_TAIL_BYTES: Final = 2000
_TAIL_LINES: Final = 10
_OUTPUT_BYTES: Final = 1 << 20


class Target(Protocol):
    """A running target; as a context manager, it is closed at the end."""

    @property
    def transport(self) -> Transport:
        """The byte stream to it."""
        ...

    @property
    def description(self) -> str:
        """What the target is and where it runs, for messages."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check_alive(self) -> None:
        """Do nothing while the target runs, as far as the host can tell.

        Raises:
            TargetError: It ended; the message has its exit status and its last output.
        """
        ...

    def close(self) -> None:
        """End the target; further calls do nothing."""
        ...


def start_target(
    board: Board, firmware: Firmware | None, *, port: UsbPort | str | None = None
) -> Target:
    """Start a board's firmware, or open the port of a board that runs by itself.

    Args:
        board: The board type.
        firmware: Its image; required for targets that are started here.
        port: Serial port, by USB device or by name; required for all others.

    Raises:
        UsageError: The image or the port is missing, or a program is not installed.
        TargetError: The firmware ended before its link was open.
        InfrastructureError: The program cannot be started, or the port cannot be opened.
    """
    if isinstance(board.target, SerialTarget):
        return open_serial_port(board, board.target, port)
    if port is not None:
        raise UsageError(
            f"board {board.name} runs on this host and has no serial port: omit --port"
        )
    require_linux_host(board)
    if firmware is None:
        raise UsageError(
            f"board {board.name} has no firmware to start", hint="build it first: `etharness build`"
        )
    match board.target:
        case NativeTarget():
            return start_native(board, firmware)
        case QemuTarget():
            return start_qemu(board, board.target, firmware)
        case RtlTarget():
            return start_rtl(board, board.target, firmware)


class ChildProcess:
    """A running program.

    Its output is drained in the background, because a full pipe would block the program. The tail
    of the output is kept.

    Attributes:
        name: Name of the program in messages.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Start the program; it ends if the calling thread ends (PR_SET_PDEATHSIG).

        Args:
            name: Name of the program in messages.
            command: The program and its arguments.

        Raises:
            UsageError: There is no such program.
            InfrastructureError: It cannot be started.
        """
        if shutil.which(command[0]) is None:
            raise UsageError(
                f"cannot start {name}: program {command[0]} not found",
                hint="`etharness doctor` says what to install",
            )
        self.name = name
        self._stdout = CappedBuffer(0, _OUTPUT_BYTES)
        self._stderr = CappedBuffer(0, _TAIL_BYTES)
        try:
            with deferred():  # an interrupt in here would leave a process that nobody knows
                self._start(command)
        except OSError as error:
            raise InfrastructureError(f"cannot start {name}: {error}") from error

    def _start(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            with_death_signal(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C must not end it: the run is ended first, and its trace is read.
            process_group=0,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._drain = start_drain(
            [
                (self._process.stdout, self._stdout.extend),
                (self._process.stderr, self._stderr.extend),
            ]
        )
        # Ends the program even without close(), at the latest when the interpreter exits.
        self._end = weakref.finalize(self, _end, self._process, self._drain)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_for(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``ready`` returns True; False if the program ended or on timeout."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self._process.poll() is not None or time.monotonic() >= deadline:
                return ready()
            time.sleep(_POLL_S)
        return True

    def finish(self, timeout_s: float) -> int | None:
        """Wait for its end; return its exit status (negative: signal), or None on timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode

    def output(self) -> bytes:
        """Return its standard output, at most the last MiB."""
        self._catch_up()
        return self._stdout.kept

    def tail(self) -> str:
        """Return the last lines of its standard error."""
        self._catch_up()
        text = self._stderr.kept.decode("utf-8", errors="replace")
        return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

    def describe_end(self, wait_s: float = 0.0) -> str | None:
        """Return a text with exit status and last output, or None while it runs.

        Args:
            wait_s: Longest wait for its end, seconds: its streams may close before it exits.
        """
        code = self.finish(wait_s)
        if code is None:
            return None
        tail = self.tail()
        return f"{self.name} {exit_text(code)}" + (f"; its last output:\n{tail}" if tail else "")

    def check_alive(self, wait_s: float = 0.0) -> None:
        """Do nothing while it runs; ``wait_s`` as in `describe_end`.

        Raises:
            TargetError: It has ended.
        """
        if (end := self.describe_end(wait_s)) is not None:
            raise TargetError(end)

    def close(self) -> None:
        """End it with SIGTERM, after a timeout with SIGKILL."""
        self._end()

    def _catch_up(self) -> None:
        if self._end.alive:
            self._drain.catch_up()


class ProcessTarget:
    """A target that runs as a process of this host.

    Attributes:
        transport: The byte stream to it.
        description: What the target is and where it runs, for messages.
        pid: Its process id.
    """

    def __init__(
        self, child: ChildProcess, transport: SocketTransport | SerialTransport, description: str
    ) -> None:
        self.transport = transport
        self.description = description
        self.pid = child.pid
        self._child = child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """Do nothing while it runs.

        Raises:
            TargetError: It ended; the message has its exit status and its last output.
        """
        self._child.check_alive(_DYING_S if self.transport.ended else 0.0)

    def close(self) -> None:
        """Close the stream and end the process; further calls do nothing."""
        self.transport.close()
        self._child.close()


def _end(process: subprocess.Popen[bytes], drain: Drain) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    drain.end()


def start_native(board: Board, firmware: Firmware) -> ProcessTarget:
    """Start the image and open the pseudo-terminal that it prints on standard output.

    Raises:
        TargetError: It ended, or printed no path within ``deadlines.boot_s``.
        InfrastructureError: It cannot be started, or the pseudo-terminal cannot be opened.
    """
    child = ChildProcess(f"the firmware of {board.name}", [str(firmware.image)])
    try:
        path = _link_path(child, board)
        transport = open_serial(path, _BAUD)
    except HarnessError:
        child.close()
        raise
    return ProcessTarget(child, transport, f"{firmware.image} (process {child.pid}) on {path}")


def _link_path(child: ChildProcess, board: Board) -> str:
    limit = board.deadlines.boot_s
    child.wait_for(lambda: _LINK.search(child.output()) is not None, limit)
    if found := _LINK.search(child.output()):
        return found[1].decode("utf-8", errors="replace")
    child.check_alive()
    raise TargetError(f"{child.name} printed no `link:` line on stdout within {limit:g} s")


def start_qemu(board: Board, machine: QemuTarget, firmware: Firmware) -> ProcessTarget:
    """Start the image on an emulated machine.

    Raises:
        UsageError: QEMU is not installed.
        InfrastructureError: QEMU cannot be started, or ended at once.
    """
    return _start(board, machine, ("-kernel", str(firmware.image)), str(firmware.image))


def start_empty(board: Board, machine: QemuTarget, gdbserver: Path) -> ProcessTarget:
    """Start an emulated machine with empty memory that waits for a debugger.

    Args:
        board: The board type.
        machine: Its QEMU settings.
        gdbserver: Path of the socket to create for the debugger.

    Raises:
        UsageError: QEMU is not installed.
        InfrastructureError: QEMU cannot be started, or ended at once.
    """
    waiting = ("-S", "-gdb", f"unix:path={gdbserver},server=on,wait=off")
    return _start(board, machine, waiting, "empty memory", gdbserver)


def _start(
    board: Board,
    machine: QemuTarget,
    contents: tuple[str, ...],
    what: str,
    gdbserver: Path | None = None,
) -> ProcessTarget:
    program = shutil.which(machine.system)
    if program is None:
        raise UsageError(
            f"board {board.name} needs {machine.system}, which is not installed",
            hint=f"on Debian or Ubuntu: apt-get install {package_of(machine.system)}",
        )

    def command(uart: str) -> list[str]:
        return [
            *(program, "-M", machine.machine, *contents),
            *("-display", "none", "-monitor", "none", "-nodefaults"),
            *("-serial", f"tcp:{uart},nodelay=on"),
            *machine.arguments,
        ]

    child, connection = _connected(f"{machine.system} ({board.name})", command, board)
    if gdbserver is not None:  # QEMU opens it after its UART
        try:
            _await(child, gdbserver.exists, board.deadlines.boot_s, "gdbserver")
        except InfrastructureError:
            connection.close()
            raise
    description = f"{what} on {machine.machine} ({machine.system}, process {child.pid})"
    return ProcessTarget(child, EmulatedUart(connection), description)


def start_rtl(board: Board, machine: RtlTarget, firmware: Firmware) -> ProcessTarget:
    """Start the image on the simulator of a core, which was built with it.

    Raises:
        UsageError: There is no simulator.
        InfrastructureError: The simulator cannot be started, or ended at once.
    """
    simulator = firmware.simulator
    if simulator is None:
        raise UsageError(
            f"board {board.name} has no simulator to start", hint="build it: `etharness build`"
        )

    def command(uart: str) -> list[str]:
        return [
            *(str(simulator), "--image", str(firmware.image), "--link", uart),
            *("--wait-states", str(machine.wait_states)),
        ]

    child, connection = _connected(
        f"the simulator of {machine.core} ({board.name})", command, board
    )
    description = f"{firmware.image} on {machine.core} (Verilator, process {child.pid})"
    return ProcessTarget(child, EmulatedUart(connection), description)


def _connected(
    name: str, command: Callable[[str], list[str]], board: Board
) -> tuple[ChildProcess, socket.socket]:
    """Start a simulator that connects its UART to us; ``command`` gets the address."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        host, port = server.getsockname()
        child = ChildProcess(name, command(f"{host}:{port}"))
        return child, _accept(server, child, board.deadlines.boot_s)


def _accept(server: socket.socket, child: ChildProcess, timeout_s: float) -> socket.socket:
    """Wait for a simulator to connect; it connects before it runs the machine."""
    accepted: list[socket.socket] = []

    def connected() -> bool:
        try:
            accepted.append(server.accept()[0])
        except BlockingIOError:
            return False
        return True

    server.setblocking(False)
    _await(child, connected, timeout_s, "UART")
    return accepted[0]


def _await(child: ChildProcess, done: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until a simulator has opened its UART or gdbserver; end it on timeout."""
    if child.wait_for(done, timeout_s):
        return
    reason = child.describe_end() or f"{child.name} did not open its {what} within {timeout_s:g} s"
    child.close()
    raise InfrastructureError(reason)


def package_of(system: str) -> str:
    """Return the Debian package of a QEMU program; a package contains several architectures."""
    architecture = system.removeprefix("qemu-system-")
    groups = {"arm": "arm", "aarch64": "arm", "x86_64": "x86", "i386": "x86"}
    return f"qemu-system-{groups.get(architecture, 'misc')}"
