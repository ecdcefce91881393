"""``etharness trace``: a run directory from firmware that nobody rebuilt.

Under QEMU the image is started with the plugin that counts instructions, and ended after the
executions that were asked for.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.config.board import Board, QemuTarget, load_board
from harness.decode.ed00_writer import write_ed00
from harness.decode.program import Method
from harness.decode.pte import ModelFile
from harness.errors import TargetError, UsageError, did_you_mean
from harness.extensions.probes.memory import FirmwareElf
from harness.extensions.probes.unbuilt import CLOCK, CallTracer, InstructionTracer
from harness.files import display_path, find_model, read_model
from harness.flash.plan import Stages
from harness.plugins import require
from harness.records.result import Model, TargetRecord
from harness.records.trace import ClockDomain, Trace
from harness.runs.device import save_trace
from harness.runs.directory import CONSOLE, RunDirectory, from_clock_domain
from harness.runs.loading import describe_model
from harness.runs.pull import finish_pull
from harness.runs.request import RunRequest
from harness.runs.source import EvaluatedRun
from harness.target.selection import Chosen
from harness.target.start import ProcessTarget, package_of

_POLL_S: Final = 0.1
_UARTS: Final = 4
"""Serial ports of a machine whose output is kept."""
_MOST_CONSOLE: Final = 1 << 20
_CONSOLE_LINES, _CONSOLE_COLUMNS = 5, 160
_EXECUTABLE: Final = 4  # SHF_EXECINSTR


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What to trace, and where.

    Attributes:
        elf: The firmware.
        chosen: Its board.
        output: The run directory to create.
        model: The model that it runs, for names and for the numbers of instructions.
        method: The method of the model.
        runs: Number of executions to wait for.
        at: Functions that are called once per operator, for other runtimes than ExecuTorch: names
            or patterns.
        execution: The function that is an execution of such a runtime.
        files: Files to put into the memory of an emulated machine, by address.
        returns: Functions that are to return at once, and what they return, as hardware that is
            missing in an emulated machine needs it.
        timeout_s: Longest wait for the next execution, seconds; None for that of the board file.
    """

    elf: Path
    chosen: Chosen
    output: Path
    model: Path | None = None
    method: str = "forward"
    runs: int = 1
    at: tuple[str, ...] = ()
    execution: str | None = None
    files: tuple[tuple[int, Path], ...] = ()
    returns: Mapping[str, int] = field(default_factory=dict)
    timeout_s: float | None = None


def trace_firmware(request: TraceRequest, stages: Stages = lambda *_: None) -> EvaluatedRun:
    """Trace executions of an unmodified firmware into a run directory.

    Raises:
        UsageError: The request is invalid, or something is not installed; nothing was started.
        FormatError: The firmware or the model cannot be read, or contains no ExecuTorch.
        TargetError: The firmware did not execute the model, or executes another one.
        InfrastructureError: The simulator failed.
    """
    began = time.monotonic()
    board, _ = load_board(request.chosen.board)
    model = _model_of(request)
    method = _method_of(request, model)
    machine = board.target
    if not isinstance(machine, QemuTarget) or request.chosen.port is not None:
        raise UsageError(f"board {board.name} is not traced by QEMU")
    with tempfile.TemporaryDirectory(prefix="etharness-") as name:
        working = Path(name)
        tracer: InstructionTracer | CallTracer
        if request.at:
            tracer = CallTracer(request.elf, working, request.at, request.execution)
        else:
            tracer = InstructionTracer(request.elf, working)
        directory = RunDirectory.create(request.output)
        console = _run_machine(request, board, machine, tracer, working, stages)
        done = tracer.executions()  # all that was recorded is written now
        try:
            if tracer.counts_executions and 0 < done < request.runs:
                raise TargetError(
                    f"the firmware executed the model {done} of {request.runs} times",
                    hint=f"ask for fewer executions, --runs {done}, or for more time, --timeout",
                )
            trace = tracer.trace(method)
        except TargetError as error:
            if done >= request.runs:
                raise
            raise _explained(error, console) from error
    directory.write(CONSOLE, console)
    return _finish(directory, board, trace, request, model, tracer.elf, began, CLOCK)


def _explained(error: TargetError, console: bytes) -> TargetError:
    """Return the error with the last lines that the firmware printed."""
    lines = console.decode("utf-8", errors="replace").split("\n")
    said = [line.strip()[:_CONSOLE_COLUMNS] for line in lines if line.strip()]
    last = "\n".join(said[-_CONSOLE_LINES:])
    if not last:
        return error
    return TargetError(f"{error.message}; its last output:\n{last}", hint=error.hint)


def _model_of(request: TraceRequest) -> ModelFile | None:
    if request.model is None:
        return None
    path = find_model(request.model)
    return ModelFile(path, read_model(path))


def _method_of(request: TraceRequest, model: ModelFile | None) -> Method | None:
    if model is None:
        return None
    method = model.program.method(request.method)
    if method is None:
        names = [each.name for each in model.program.methods]
        raise UsageError(
            f"{display_path(model.path)} has no method {request.method!r}",
            hint=f"{did_you_mean(request.method, names)}select one with --method: "
            f"{', '.join(names)}",
        )
    return method


def _run_machine(
    request: TraceRequest,
    board: Board,
    machine: QemuTarget,
    tracer: InstructionTracer | CallTracer,
    working: Path,
    stages: Stages,
) -> bytes:
    """Run the firmware until it has executed the model often enough; return its console.

    Raises:
        UsageError: QEMU is not installed, or a function or file is not there.
        InfrastructureError: It cannot be started.
    """
    program = shutil.which(machine.system)
    if program is None:
        raise UsageError(
            f"board {board.name} needs {machine.system}, which is not installed",
            hint=f"on Debian or Ubuntu: apt-get install {package_of(machine.system)}",
        )
    image = patched_image(tracer.elf, request.returns, working)
    uarts = [working / f"uart{number}" for number in range(_UARTS)]
    command = [program, "-M", machine.machine, "-kernel", str(image), "-nodefaults"]
    command += ["-display", "none", "-monitor", "none", "-semihosting", *machine.arguments]
    for address, file in request.files:
        if not file.is_file() or "," in str(file):
            raise UsageError(
                f"cannot put {display_path(file)} into memory: it is no file that QEMU can load",
                hint="name a file whose path has no comma",
            )
        command += ["-device", f"loader,file={file},addr={address:#x},force-raw=on"]
    for uart in uarts:
        command += ["-serial", f"file:{uart}"]
    limit = board.deadlines.execute_s if request.timeout_s is None else request.timeout_s
    with ProcessTarget(f"{machine.system} ({board.name})", [*command, *tracer.arguments]) as qemu:
        done, since = 0, time.monotonic()
        while done < request.runs:
            stages("running", done, request.runs)
            ended = qemu.finish(_POLL_S) is not None
            before, done = done, tracer.executions()
            if ended or time.monotonic() - since > limit:
                break
            since = time.monotonic() if done > before else since
    return b"".join(uart.read_bytes()[-_MOST_CONSOLE:] for uart in uarts if uart.exists())


def patched_image(elf: FirmwareElf, returns: Mapping[str, int], working: Path) -> Path:
    """Return the image in which functions return at once: a copy, if there are any.

    Raises:
        UsageError: There is no such function, or it cannot return the value in two instructions.
    """
    if not returns:
        return elf.path
    (reader,) = require("probe", "reading an ELF file", "elftools.elf.elffile")
    data = bytearray(elf.path.read_bytes())
    sections = [
        (section["sh_addr"], section["sh_size"], section["sh_offset"])
        for section in reader.ELFFile(io.BytesIO(data)).iter_sections()
        if section["sh_flags"] & _EXECUTABLE
    ]
    for name, value in returns.items():
        code = _returning(value, thumb=elf.is_thumb)
        address = elf.function(name).address
        for begin, size, offset in sections:
            if begin <= address < begin + size:
                at = offset + address - begin
                data[at : at + len(code)] = code
    copy = working / "patched.elf"
    copy.write_bytes(data)
    return copy


def _returning(value: int, *, thumb: bool) -> bytes:
    """Return code of a function that returns a small number."""
    most = 255 if thumb else 31
    if not 0 <= value <= most:
        raise UsageError(f"a function can be made to return 0 to {most} here, not {value}")
    pair = (0x2000 | value, 0x4770) if thumb else (0x4501 | value << 2, 0x8082)
    return b"".join(half.to_bytes(2, "little") for half in pair)


def _finish(
    directory: RunDirectory,
    board: Board,
    traced: Trace,
    request: TraceRequest,
    model: ModelFile | None,
    elf: FirmwareElf,
    began: float,
    clock: ClockDomain,
    **facts: Any,
) -> EvaluatedRun:
    """Write trace and result; what the ED00 file cannot hold is in neither."""
    trace, summary = save_trace(write_ed00(traced), b"", (clock,), directory)
    executions = summary.executions or 0
    described: Model | None = None
    if model is not None:
        named = RunRequest(request.chosen.board, model.path, request.runs, request.output)
        described = describe_model(named, model)
    return finish_pull(
        directory,
        board,
        trace,
        began=began,
        unit=request.chosen.unit or board.name,
        port=None,
        runs_requested=request.runs,
        runs_completed=executions,
        model=described,
        target=TargetRecord(
            board=board.name,
            cpu=board.cpu,
            build_id=elf.build_id,
            link_version=0,
            mtu=0,
            clocks=(from_clock_domain(clock),),
            model_capacity=0,
            arena_capacity=0,
            input_capacity=0,
            trace_capacity=0,
            debug_capacity=0,
            probe_ticks=0,
            probe_pairs=0,
            operators=0,
            runtime="" if request.at else "ExecuTorch",
            kernels="" if request.at else "kernels of its own",
        ),
        trace=summary,
        **facts,
    )
