"""Starts targets: processes of this host, machines in QEMU, other simulators, serial ports.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, Self, cast

from harness.config.board import Board, NativeTarget, QemuTarget, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import (
    HarnessError,
    InfrastructureError,
    RunInProgressError,
    TargetError,
    UsageError,
)
from harness.files import CappedBuffer
from harness.interrupts import deferred
from harness.link.exchange import Progress
from harness.link.messages import TargetInfo
from harness.link.session import Session
from harness.link.transports import (
    EmulatedUart,
    ReopeningTransport,
    SerialTransport,
    SocketTransport,
    Transport,
    open_port,
    open_serial,
)
from harness.plugins import TARGETS, load_extension
from harness.target.build import Firmware, require_linux_host
from harness.target.ports import device_of, port_text
from harness.target.process_group import Drain, exit_text, start_drain, with_death_signal
from harness.target.selection import ExclusiveUse, LockKey, hold_keys, port_key


class SerialPortTarget:
    """A board on a serial port, which is leased while it is open, and reopened after a loss.

    A USB port may come back under another device name and on another USB socket.

    Attributes:
        transport: The byte stream to it.
        description: Port and baud rate, for messages.
    """

    def __init__(self, port: UsbPort | str, baud: int, *, wait_s: float, reopen_s: float) -> None:
        """Find, lease and open the port.

        Args:
            port: USB device, device name or address.
            baud: Bits per second.
            wait_s: Longest wait for another process to release it, seconds.
            reopen_s: Longest absence of the port later, seconds.

        Raises:
            BusyError: Another process holds it.
            PortError: It is not present, or cannot be opened.
        """
        self._port, self._baud, self._wait_s = port, baud, wait_s
        self._key: LockKey | None = None
        self._held = ExitStack()
        self._lease: ExclusiveUse | None = None
        try:
            self.transport = ReopeningTransport(self._open, reopen_s, check=self._check_cached)
        except BaseException:
            self._held.close()
            raise
        rate = f" at {self.transport.baud} baud" if self.transport.baud else ""
        self.description = f"{port_text(port)}{rate}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """Check the lease. Whether a board on a serial port runs, only the link can tell.

        Raises:
            BusyError: The lease was lost.
        """
        if self._lease is not None:
            self._lease.check()

    def close(self) -> None:
        """Close the port and release its lease."""
        try:
            self.transport.close()
        finally:
            self._held.close()

    def _open(self) -> Transport:
        device = device_of(self._port)
        key = port_key(device)
        if key != self._key:
            held = ExitStack()
            self._lease = held.enter_context(hold_keys([key], self._wait_s))
            self._held.close()
            self._key, self._held, self._wait_s = key, held, 0.0
        return open_port(device, self._baud)

    def _check_cached(self) -> None:
        """Check the lease by its last heartbeat; cheap enough for every read."""
        if self._lease is not None:
            self._lease.check_cached()


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
        if port is None:
            raise UsageError(
                f"board {board.name} needs a serial port, and no port is given",
                hint="use --unit, or --port such as /dev/ttyACM0 or rfc2217://host:port; "
                "`etharness lab ports` lists the ports of this host",
            )
        wait_s, reopen_s = board.deadlines.unit_s, board.deadlines.reopen_s
        return SerialPortTarget(port, board.target.baud, wait_s=wait_s, reopen_s=reopen_s)
    if port is not None:
        raise UsageError(
            f"board {board.name} runs on this host and has no serial port: omit --port"
        )
    require_linux_host(board)
    if board.runner:
        raise UsageError(
            f"board {board.name} has no link: its image is one that nobody here builds",
            hint=f"use `etharness run --board {board.name} MODEL`, which writes a run directory",
        )
    if firmware is None:
        raise UsageError(
            f"board {board.name} has no firmware to start", hint="build it first: `etharness build`"
        )
    match board.target:
        case NativeTarget():
            name, command = f"the firmware of {board.name}", [str(firmware.image)]
            return start_printing(name, command, board, str(firmware.image))
        case QemuTarget():
            image = str(firmware.image)
            return _start_qemu(board, board.target, ("-kernel", image), image)
        case _:
            what = f"board {board.name}: simulators other than QEMU are"
            plugin = load_extension(TARGETS, board.simulator, what, "simulators")
            return cast("Target", plugin.start(board, firmware))


def start_session(
    target: Target, board: Board, console: Callable[[bytes], None] | None = None
) -> Session:
    """Return a session with a started board; ``console`` is called with the text it prints."""
    return Session(
        target.transport,
        deadline_s=board.deadlines.request_s,
        console=console,
        check_alive=target.check_alive,
        board=board.name,
    )


@contextlib.contextmanager
def started(
    board: Board,
    firmware: Firmware | None,
    *,
    port: UsbPort | str | None = None,
    console: Callable[[bytes], None] | None = None,
) -> Iterator[Session]:
    """Start a board as ``start_target``; yield a session with it, and close it at the end."""
    with start_target(board, firmware, port=port) as target:
        yield start_session(target, board, console)


def greet(
    session: Session,
    board: Board,
    *,
    wait_s: float | None = None,
    cancel: bool = False,
    progress: Progress | None = None,
) -> TargetInfo:
    """Wait for HELLO; return the board's description, with what its file adds about clock 0.

    Args:
        session: A session with the started board.
        board: The board type.
        wait_s: Longest wait for the end of an earlier session's run, seconds; None for the time of
            an execution if ``cancel``, else for no waiting.
        cancel: End such a run after its current execution.
        progress: Called with (executions completed, executions requested) of such a run.

    Raises:
        RunInProgressError: The board executes such a run.
        LinkError: It does not answer.
        TargetError: It died.
    """
    deadlines, timer = board.deadlines, board.timer
    try:
        info = session.hello(deadlines.boot_s)
    except RunInProgressError as run:
        if wait_s is None and not cancel:
            raise
        session.join(
            run,
            timeout_s=deadlines.execute_s if wait_s is None else wait_s,
            silence_s=deadlines.execute_s,
            cancel=cancel,
            progress=progress,
        )
        info = session.hello(deadlines.boot_s)
    first = replace(
        info.clocks[0],
        monotonic=timer.monotonic,
        tolerance_ppm=timer.tolerance_ppm,
        wander_ppm=timer.wander_ppm,
    )
    return replace(info, clocks=(first, *info.clocks[1:]))


class ProcessTarget:
    """A program of this host: firmware, or a simulator that runs it.

    Its output is drained in the background, because a full pipe would block the program. The tail
    of the output is kept.

    Attributes:
        name: Name of the program in messages.
        description: What the target is and where it runs, for messages.
        pid: The process id.
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
        self.name = self.description = name
        self._transport: SocketTransport | SerialTransport | None = None
        self._stdout = CappedBuffer(0, _OUTPUT_BYTES)
        self._stderr = CappedBuffer(0, _TAIL_BYTES)
        try:
            with deferred():  # an interrupt in here would leave a process that nobody knows
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
                sinks = self._stdout.extend, self._stderr.extend
                pipes = self._process.stdout, self._process.stderr
                self._drain = start_drain([*zip(pipes, sinks, strict=True)])
                # Ends it even without close(), at the latest when the interpreter exits.
                self._end = weakref.finalize(self, _end, self._process, self._drain)
                self.pid = self._process.pid
        except OSError as error:
            raise InfrastructureError(f"cannot start {name}: {error}") from error

    def linked(self, transport: SocketTransport | SerialTransport, description: str) -> Self:
        """Return self with the byte stream to it."""
        self._transport, self.description = transport, description
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def transport(self) -> SocketTransport | SerialTransport:
        """The byte stream to it."""
        assert self._transport is not None, "not linked"
        return self._transport

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
        if self._end.alive:
            self._drain.catch_up()
        return self._stdout.kept

    def tail(self) -> str:
        """Return the last lines of its standard error."""
        if self._end.alive:
            self._drain.catch_up()
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

    def check_alive(self) -> None:
        """Do nothing while it runs.

        Raises:
            TargetError: It ended; the message has its exit status and its last output.
        """
        closed = self._transport is not None and self._transport.ended
        if (end := self.describe_end(_DYING_S if closed else 0.0)) is not None:
            raise TargetError(end)

    def close(self) -> None:
        """Close the stream, and end it with SIGTERM, after a timeout with SIGKILL."""
        if self._transport is not None:
            self._transport.close()
        self._end()


def _end(process: subprocess.Popen[bytes], drain: Drain) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    drain.end()


def start_printing(name: str, command: Sequence[str], board: Board, what: str) -> ProcessTarget:
    """Start a program and open the pseudo-terminal that it prints on standard output.

    Args:
        name: Name of the program in messages.
        command: The program and its arguments.
        board: The board type.
        what: What it runs, for messages.

    Raises:
        TargetError: It ended, or printed no path within ``deadlines.boot_s``.
        InfrastructureError: It cannot be started, or the pseudo-terminal cannot be opened.
    """
    child = ProcessTarget(name, command)
    limit = board.deadlines.boot_s
    try:
        child.wait_for(lambda: _LINK.search(child.output()) is not None, limit)
        printed = _LINK.search(child.output())
        if printed is None:
            child.check_alive()
            raise TargetError(f"{child.name} printed no `link:` line on stdout within {limit:g} s")
        path = printed[1].decode("utf-8", errors="replace")
        transport = open_serial(path, _BAUD)
    except HarnessError:
        child.close()
        raise
    return child.linked(transport, f"{what} (process {child.pid}) on {path}")


def start_halted(
    board: Board,
    machine: QemuTarget,
    gdbserver: Path,
    contents: tuple[str, ...] = (),
    what: str = "empty memory",
) -> ProcessTarget:
    """Start an emulated machine that waits for a debugger before its first instruction.

    Args:
        board: The board type.
        machine: Its QEMU settings.
        gdbserver: Path of the socket to create for the debugger.
        contents: Options of QEMU that fill its memory.
        what: What they fill it with, for messages.

    Raises:
        UsageError: QEMU is not installed.
        InfrastructureError: QEMU cannot be started, or ended at once.
    """
    waiting = ("-S", "-gdb", f"unix:path={gdbserver},server=on,wait=off")
    return _start_qemu(board, machine, (*waiting, *contents), what, gdbserver)


def _start_qemu(
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

    child = start_connected(f"{machine.system} ({board.name})", command, board)
    if gdbserver is not None:  # QEMU opens it after its UART
        await_link(child, gdbserver.exists, board.deadlines.boot_s, "gdbserver")
    child.description = f"{what} on {machine.machine} ({machine.system}, process {child.pid})"
    return child


def start_connected(name: str, command: Callable[[str], list[str]], board: Board) -> ProcessTarget:
    """Start a simulator that connects its UART to us; ``command`` gets the address.

    It connects before it runs the machine.
    """
    accepted: list[socket.socket] = []

    def connected() -> bool:
        with contextlib.suppress(BlockingIOError):
            accepted.append(server.accept()[0])
        return bool(accepted)

    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        server.setblocking(False)
        host, port = server.getsockname()
        child = ProcessTarget(name, command(f"{host}:{port}"))
        await_link(child, connected, board.deadlines.boot_s, "UART")
    return child.linked(EmulatedUart(accepted[0]), name)


def await_link(child: ProcessTarget, done: Callable[[], bool], timeout_s: float, what: str) -> None:
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
