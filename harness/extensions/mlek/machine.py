"""Arm's inference runner on an emulated MPS3, as a machine that executes one model.

The image takes its model, its inputs and its outputs at fixed addresses, and reports on a UART. It
waits for an Ethos-U that QEMU lacks, so its initialisation is replaced. The runner executes a model
once and times nothing without an NPU: the hooks of ``runner_hooks.S`` have it execute as often as
wanted, and read the system counter around loading and execution. ExecuTorch is not changed.
"""

from __future__ import annotations

import re
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from harness.config.board import Board, QemuTarget
from harness.errors import InfrastructureError, TargetError, TransportClosedError
from harness.link.exchange import executorch_error_name
from harness.plugins import TARGETS, load_extension
from harness.target.start import ProcessTarget, start_halted

MODEL_AT: Final = 0x90000000
INPUTS_AT: Final = 0x92000000
OUTPUTS_AT: Final = 0x93000000
"""Where the runner takes the program and all inputs, and leaves all outputs."""

MOST_INPUT: Final = 0x1000000
"""Bytes of all inputs, and of all outputs, that the runner copies."""

_HOOKS_AT, _MAILBOX_AT = 0x60000, 0x61000  # unused memory behind the code
HOOKS: Final = bytes.fromhex(
    "70b504464ff4c2252046a7f759fb18b1d5e900129142f7db70bd00bf70b5114c2568dcf795ff21684ff4c222"
    "13680133136002ebc302c2e9045170bd4ff4c22cccf808e0dff81ce0def800e0ccf810e0e0f732f84ff4c22c"
    "02490968ccf81410dcf808f018203049"
)
"""The code of ``runner_hooks.S``."""

CALLS: Final = {0x74DC: 0x60000, 0xA1B0: 0x6001C, 0xBEC6: 0x6003C}
"""Calls of the runner, and where they are led to: `loop`, `timed_execute`, `timed_load`."""

_RETURN_0, _RETURN = bytes.fromhex("00207047"), bytes.fromhex("7047")
REPLACED: Final = {0x8494: _RETURN_0, 0x56B28: _RETURN, 0x56B80: _RETURN}
"""Functions that return at once: `arm_ethosu_npu_init` with 0, as if there were an NPU, and start
and end of the runner's profiler, which counts NPU cycles and sets the counter to zero."""

MOST_EXECUTIONS: Final = (0x80000 - _MAILBOX_AT - 24) // 8
"""Executions whose times fit behind the mailbox."""

_ENDED: Final = b"program terminating"
_ABORTED: Final = b"terminate called"
_COMPLETED: Final = b"Inference completed."
_COPIED: Final = b"copied to 0x"
_QUIET_S: Final = 0.05
_ERROR: Final = r"^E \[ExecuTorch: (\S+) .*?\] (.+?)\r?$"
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
    """

    planned: int | None
    method: int | None
    temporary: int | None
    errors: tuple[str, ...]
    status: int | None
    executed: bool


@dataclass(frozen=True, slots=True)
class KitRun:
    """Executions of a model by the runner.

    Attributes:
        report: What it printed.
        loading: Readings of the system counter at start and end of loading.
        executions: These of each execution.
        outputs: All outputs of the last execution, one behind another.
    """

    report: RunnerReport
    loading: tuple[int, int]
    executions: tuple[tuple[int, int], ...]
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
    )


def execute(
    board: Board,
    image: Path,
    model: bytes,
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
        inputs: All inputs, one behind another.
        output_bytes: Bytes of all outputs.
        runs: Number of executions.
        console: Called with the text of the UART.
        progress: Called with the number of executions so far.

    Raises:
        TargetError: ExecuTorch refused the model, its execution failed, or the runner hangs.
        InfrastructureError: QEMU or its gdbserver failed.
    """
    assert isinstance(board.target, QemuTarget)
    gdb: _Gdb = load_extension(TARGETS, "gdb", f"board {board.name}: a debugger is", "probes")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etharness-")))
        files = {MODEL_AT: model, INPUTS_AT: inputs}
        loaded: list[str] = ["-kernel", str(image)]
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
        words = struct.unpack(f"<{6 + 2 * runs}I", debugger.read(_MAILBOX_AT, 24 + 8 * runs))
        times = tuple(zip(words[6::2], words[7::2], strict=True))
        if words[0] != runs:
            raise TargetError(f"{board.name}: {words[0]} of {runs} executions completed")
        outputs = debugger.read(OUTPUTS_AT, output_bytes) if output_bytes else b""
        return KitRun(report, (words[4], words[5]), times, outputs)


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
