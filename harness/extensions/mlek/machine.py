"""Arm's inference runner on an emulated MPS3, as a machine that executes one model.

The image takes its model, its inputs and its outputs at fixed addresses, and reports on a UART. It
waits for an Ethos-U that QEMU lacks, so its initialisation is replaced; and it executes a model
once, so a hook (``runner_hooks.S``) repeats that. ExecuTorch is not changed. A plugin of QEMU
counts its instructions.
"""

from __future__ import annotations

import re
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Protocol

from harness.config.board import Board, QemuTarget
from harness.decode.program import Method
from harness.errors import InfrastructureError, TargetError, TransportClosedError, UsageError
from harness.link.exchange import executorch_error_name
from harness.plugins import TARGETS, load_extension
from harness.printing import counted
from harness.records.trace import ClockDomain, Trace
from harness.target.start import ProcessTarget, start_halted

MODEL_AT: Final = 0x90000000
INPUTS_AT: Final = 0x92000000
OUTPUTS_AT: Final = 0x93000000
"""Where the runner takes the program and all inputs, and leaves all outputs."""

MOST_INPUT: Final = 0x1000000
"""Bytes of all inputs, and of all outputs, that the runner copies."""

_HOOKS_AT, _MAILBOX_AT = 0x60000, 0x61000  # unused memory behind the code
HOOKS: Final = bytes.fromhex("70b504464ff4c2252046a7f759fb28b1d5e90012013129609142f5db70bd")
"""The code of ``runner_hooks.S``."""

CALLS: Final = {0x74DC: _HOOKS_AT}
"""A call of the runner, and where it is led to: `loop`."""

REPLACED: Final = {0x8494: bytes.fromhex("00207047")}
"""`arm_ethosu_npu_init` returns 0 at once, as if there were an NPU."""

_ENDED: Final = b"program terminating"
_ABORTED: Final = b"terminate called"
_COMPLETED: Final = b"Inference completed."
_COPIED: Final = b"copied to 0x"
_QUIET_S: Final = 0.05
_ERROR: Final = r"\bE \[ExecuTorch: (\S+) .*?\] (.+?)\r?$"
_ARGUMENT: Final = r"arg \d+ with type id"
"""The arguments of a kernel that failed, which only the console keeps."""


class Debugger(Protocol):
    """A debugger, as the extension ``probes`` has one."""

    def read(self, address: int, size: int) -> bytes:
        """Return memory of the halted machine."""

    def write(self, address: int, data: bytes) -> None:
        """Write memory of the halted machine."""

    def halt(self) -> None:
        """Halt the machine."""

    def resume(self) -> None:
        """Let the machine run."""

    def close(self) -> None:
        """Let the machine run, and disconnect."""


class _Tracer(Protocol):
    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for QEMU."""

    def trace(self, method: Method, clock: ClockDomain) -> Trace:
        """Return the trace once QEMU has ended."""


class _Instructions(Protocol):
    def InstructionTracer(self, image: Path, directory: Path) -> _Tracer:  # noqa: N802
        """Return a tracer for an image."""


class _Gdb(Protocol):
    def attach(self, connection: socket.socket, name: str) -> Debugger:
        """Return a connection to a gdbserver."""


@dataclass(frozen=True, slots=True)
class RunnerReport:
    """What the runner printed of a model.

    Attributes:
        planned: Bytes of planned memory; None if it did not get so far.
        method: Bytes of ExecuTorch's method allocator for the method, without planned memory.
        temporary: Most bytes of its temporary allocator.
        errors: ExecuTorch's own errors, with their places in its source code.
        status: Why loading ended, ExecuTorch's error code; None if it succeeded.
        executed: Whether the last execution succeeded.
        copied: Bytes of the outputs that the runner copied; None if it did not get so far.
        printing: Kernels that have printed, by their source files.
    """

    planned: int | None
    method: int | None
    temporary: int | None
    errors: tuple[str, ...]
    status: int | None
    executed: bool
    copied: int | None = None
    printing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KitRun:
    """Executions of a model by the runner.

    Attributes:
        report: What it printed.
        trace: Loading, executions and operators, in instructions.
        outputs: All outputs of the last execution, one behind another.
    """

    report: RunnerReport
    trace: Trace
    outputs: bytes


def read_report(text: bytes) -> RunnerReport:
    """Parse the text of the runner's UART."""
    words = text.decode("utf-8", "replace")

    def number(pattern: str, base: int = 10) -> int | None:
        found = re.findall(pattern, words)
        return int(found[-1], base) if found else None

    errors = [
        (place, message)
        for place, message in re.findall(_ERROR, words, re.MULTILINE)
        if not re.match(_ARGUMENT, message)
    ]
    return RunnerReport(
        planned=number(r"Total planned memory allocated: (\d+) bytes"),
        method=number(r"Method memory allocated: (\d+) bytes"),
        temporary=number(r"Temp memory: Used: \d+; Peak: (\d+);"),
        errors=tuple(dict.fromkeys(f"{message} ({place})" for place, message in errors)),
        status=number(r'Loading of method "[^"]*" failed with status 0x([0-9a-f]+)', 16),
        executed=_COMPLETED in text,
        copied=number(r"output tensor/s worth (\d+) bytes copied"),
        printing=tuple(dict.fromkeys(re.findall(r"\bI \[ExecuTorch: op_(\w+)\.cpp", words))),
    )


def execute(
    board: Board,
    image: Path,
    model: bytes,
    method: Method,
    inputs: bytes,
    output_bytes: int,
    runs: int,
    console: Callable[[bytes], None],
    progress: Callable[[int], None],
) -> KitRun:
    """Let the runner load a model and execute it.

    Args:
        board: The board; its target is a QEMU machine.
        image: The image.
        model: The program.
        method: Its method that the runner executes.
        inputs: All inputs, one behind another.
        output_bytes: Bytes of all outputs.
        runs: Number of executions.
        console: Called with the text of the UART.
        progress: Called with the number of executions so far.

    Raises:
        TargetError: ExecuTorch refused the model, its execution failed, or the runner hangs.
        UsageError: An output is smaller than its largest shape, so its shape is not known.
        InfrastructureError: QEMU or its gdbserver failed.
    """
    if sys.platform == "win32":
        raise UsageError("Python has no UNIX sockets on Windows, which QEMU is debugged through")
    assert isinstance(board.target, QemuTarget)
    counter: _Instructions = load_extension(
        TARGETS, "instructions", f"board {board.name}: counting instructions is", "probes"
    )
    gdb: _Gdb = load_extension(TARGETS, "gdb", f"board {board.name}: a debugger is", "probes")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etharness-")))
        files = {MODEL_AT: model, INPUTS_AT: inputs}
        tracer = counter.InstructionTracer(image, folder)
        loaded = ["-kernel", str(image), *tracer.arguments]
        for address, data in files.items():
            if data:
                file = folder / f"{address:x}"
                file.write_bytes(data)
                loaded += ["-device", f"loader,file={file},addr={address:#x},force-raw=on"]
        machine = stack.enter_context(
            start_halted(board, board.target, folder / "gdb", tuple(loaded), image.name)
        )
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        path = str(folder / "gdb")
        # The socket is there a moment before QEMU listens on it.
        if not machine.wait_for(lambda: not connection.connect_ex(path), board.deadlines.boot_s):
            machine.check_alive()
            raise InfrastructureError(f"{machine.name} does not accept a debugger")
        debugger = gdb.attach(connection, f"of {machine.name}")
        _prepare(debugger, runs)
        debugger.resume()
        text = _follow(machine, board, runs, console, progress)
        debugger.halt()
        report = read_report(text)
        _require_executed(report, text, board)
        done = int.from_bytes(debugger.read(_MAILBOX_AT, 4), "little")
        if done != runs:
            raise TargetError(f"{board.name}: {done} of {counted(runs, 'execution')} completed")
        if report.copied != output_bytes:
            raise UsageError(
                f"{board.name}: the outputs have {report.copied:,} bytes, and at most "
                f"{output_bytes:,}: the shape of one is dynamic, and the runner does not say which",
                hint="make the shape of the outputs static, or give inputs that fill them",
            )
        outputs = debugger.read(OUTPUTS_AT, output_bytes) if output_bytes else b""
        machine.close()  # by SIGTERM, so that the plugin writes everything
        clock = ClockDomain(board.timer.source, Fraction(board.timer.hz), board.timer.bits)
        return KitRun(report, tracer.trace(method, clock), outputs)


def _prepare(debugger: Debugger, runs: int) -> None:
    for address, code in REPLACED.items():
        debugger.write(address, code)
    debugger.write(_HOOKS_AT, HOOKS)
    debugger.write(_MAILBOX_AT, struct.pack("<II", 0, runs))
    for call, hook in CALLS.items():
        debugger.write(call, _branch_with_link(call, hook))


def _branch_with_link(at: int, to: int) -> bytes:
    """Return the Thumb instruction BL (Armv8-M Architecture Reference Manual, encoding T1)."""
    offset = to - (at + 4)
    sign, i1, i2 = (offset >> 24) & 1, (offset >> 23) & 1, (offset >> 22) & 1
    first = 0xF000 | sign << 10 | (offset >> 12) & 0x3FF
    second = 0xD000 | (i1 ^ sign ^ 1) << 13 | (i2 ^ sign ^ 1) << 11 | (offset >> 1) & 0x7FF
    return struct.pack("<HH", first, second)


def _follow(
    machine: ProcessTarget,
    board: Board,
    runs: int,
    console: Callable[[bytes], None],
    progress: Callable[[int], None],
) -> bytes:
    """Return the text of the UART up to the runner's end.

    Raises:
        TargetError: It does not come to its end.
    """
    text, done = b"", 0
    limit_s = board.deadlines.boot_s + board.deadlines.execute_s
    until = time.monotonic() + limit_s
    while _ENDED not in text and _ABORTED not in text:
        with suppress(TransportClosedError):
            data = machine.transport.read(_QUIET_S)
            console(data)
            text += data
        machine.check_alive()
        if (copied := text.count(_COPIED)) > done:
            done = copied
            progress(min(done, runs))
            until = time.monotonic() + limit_s
        if time.monotonic() > until:
            last = text.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise TargetError(
                f"{board.name}: no end of execution {done + 1} of {runs} within {limit_s:g} s; the "
                f"last line of the runner: {last[0] if last else 'none'}",
                hint="raise deadlines.execute_s in a board file of your own",
            )
    while data := machine.transport.read(_QUIET_S):  # the rest of its last words
        console(data)
        text += data
    return text


def _require_executed(report: RunnerReport, text: bytes, board: Board) -> None:
    """Raise ExecuTorch's own error if it refused the model or failed in it."""
    errors = "; ".join(report.errors)
    if report.status is not None:
        raise TargetError(
            f"{board.name}: ExecuTorch does not load the model: "
            f"{errors or 'no reason printed'} ({executorch_error_name(report.status)})",
            hint="the image is of March 2026: leave out operators that are younger, or of another "
            "backend, and export int8 networks for Cortex-M55",
        )
    if _ABORTED in text:
        lines = text[text.index(_ABORTED) :].decode("utf-8", "replace").split("\n")
        raise TargetError(
            f"{board.name}: the runner of Arm's kit aborted: {' '.join(' '.join(lines).split())}",
            hint="it handles tensors with at least one dimension only",
        )
    if not report.executed:
        last = [line for line in text.decode("utf-8", "replace").splitlines() if "ERROR" in line]
        raise TargetError(
            f"{board.name}: ExecuTorch does not execute the model: "
            f"{errors or ' '.join(last) or 'no reason printed'}",
            hint="int8 networks belong to a core: export them for Cortex-M55, with an ExecuTorch "
            "of about March 2026",
        )
