"""``etharness trace``: a run directory from firmware that nobody rebuilt.

Under QEMU the image is started with the plugin that counts instructions, and ended after the
executions that were asked for.
"""

from __future__ import annotations

import io
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.config.board import Board, QemuTarget, load_board
from harness.decode.ed00_writer import write_ed00
from harness.decode.program import Method
from harness.decode.pte import ModelFile
from harness.errors import InfrastructureError, TargetError, UsageError, did_you_mean
from harness.extensions.probes.debug_probe import DebugProbe, attach
from harness.extensions.probes.executorch_code import Role, find_executorch, qualified_name
from harness.extensions.probes.memory import (
    FirmwareElf,
    UnreadOutputsError,
    check_firmware,
    disturbance,
    probe_of,
)
from harness.extensions.probes.method_memory import (
    LeftInMemory,
    pool_records,
    read_outputs_of,
    read_pools_of,
    read_variables,
)
from harness.extensions.probes.stops import (
    MOST_BREAKPOINTS,
    Described,
    InstructionPlaces,
    MemoryCounter,
    PlaceOf,
    StopCost,
    StopFollower,
    Stopped,
    instruction_begins,
    parse_counter,
)
from harness.extensions.probes.unbuilt import (
    CLOCK,
    CallTracer,
    InstructionTracer,
    matching_functions,
)
from harness.files import display_path, find_model, read_model
from harness.flash.image import read_image
from harness.flash.plan import Stages
from harness.link.transports import is_probe
from harness.plugins import require
from harness.printing import counted
from harness.records.result import Model, TargetRecord
from harness.records.trace import ClockDomain, Trace
from harness.runs.device import save_output, save_trace
from harness.runs.directory import CONSOLE, RunDirectory, from_clock_domain
from harness.runs.loading import describe_model
from harness.runs.pull import finish_pull
from harness.runs.request import RunRequest
from harness.runs.source import EvaluatedRun
from harness.target.selection import Chosen
from harness.target.start import ProcessTarget, package_of

_CONNECT_S: Final = 20.0
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
        stops: Follow an emulated machine by breakpoints, as a debug probe does, not by counting.
        counter: The counter that is read at stops; None for the board file's.
        counter_hz: Its rate; None if it is unknown, or the board file's.
        outputs: Variables with the outputs, in their order; () to read them where ExecuTorch has
            them.
        reset: Command to the gdbserver that resets the board first; None to leave it running.
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
    stops: bool = False
    counter: str | None = None
    counter_hz: int | None = None
    outputs: tuple[str, ...] = ()
    reset: str | None = None


def trace_firmware(request: TraceRequest, stages: Stages = lambda *_: None) -> TracedRun:
    """Trace executions of an unmodified firmware into a run directory.

    Raises:
        UsageError: The request is invalid, or something is not installed; nothing was started.
        FormatError: The firmware or the model cannot be read, or contains no ExecuTorch.
        TargetError: The firmware did not execute the model, or executes another one.
        InfrastructureError: The simulator or the probe failed.
    """
    board, _ = load_board(request.chosen.board)
    model = _model_of(request)
    method = _method_of(request, model)
    with tempfile.TemporaryDirectory(prefix="etharness-") as name:
        job = _TraceJob(request, board, model, method, Path(name), stages, time.monotonic())
        by_probe = is_probe(request.chosen.port)
        if not by_probe and not isinstance(board.target, QemuTarget):
            raise UsageError(
                f"board {board.name} is traced through a debug probe",
                hint="name it with --port: gdb://HOST:PORT of OpenOCD, pyOCD or J-Link, or pyocd://",
            )
        if by_probe and (request.files or request.returns):
            raise UsageError("--load and --return are for machines that are started here")
        if by_probe:
            return _trace_by_probe(job)
        return _trace_by_stops(job) if request.stops else _trace_by_counting(job)


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A traced run, and what tracing it cost.

    Attributes:
        run: The run.
        memory: What the last execution left in memory.
        cost: What stops cost; None if nothing was stopped.
        counter: The counter that was read at stops; None if nothing was stopped.
    """

    run: EvaluatedRun
    memory: LeftInMemory
    cost: StopCost | None = None
    counter: MemoryCounter | None = None


@dataclass(frozen=True, slots=True)
class _TraceJob:
    """A request with what was read for it."""

    request: TraceRequest
    board: Board
    model: ModelFile | None
    method: Method | None
    working: Path
    stages: Stages
    began: float

    @property
    def limit_s(self) -> float:
        """Longest wait for the next execution, seconds."""
        limit = self.request.timeout_s
        return self.board.deadlines.execute_s if limit is None else limit


def _trace_by_counting(job: _TraceJob) -> TracedRun:
    """Trace under QEMU by the plugin."""
    request = job.request
    tracer: InstructionTracer | CallTracer
    if request.at:
        tracer = CallTracer(request.elf, job.working, request.at, request.execution)
    else:
        tracer = InstructionTracer(request.elf, job.working)
    directory = RunDirectory.create(request.output)
    memory = LeftInMemory()
    begin = tracer.execution_begin
    if begin is None:
        with _machine(job, tracer.elf, tracer.arguments, counting=True) as qemu:
            qemu.finish(job.limit_s)
    else:
        with suppress(TargetError), _debugged(job, tracer.elf, tracer.arguments) as probe:
            memory = _run_executions(job, tracer.elf, probe, begin)
    console = _console(job)
    done = tracer.executions()  # all that was recorded is written now
    try:
        if begin is not None and 0 < done < request.runs:
            raise TargetError(
                f"the firmware executed the model {done} of {counted(request.runs, 'time')}",
                hint=f"ask for fewer executions, --runs {done}, or for more time, --timeout",
            )
        trace = tracer.trace(job.method)
    except TargetError as error:
        if done >= request.runs:
            raise
        raise _explained(error, console) from error
    directory.write(CONSOLE, console)
    run = _finish(job, directory, trace, tracer.elf, CLOCK, memory)
    return TracedRun(run, memory)


def _run_executions(
    job: _TraceJob, elf: FirmwareElf, probe: DebugProbe, begin: int
) -> LeftInMemory:
    """Let the firmware execute the model, and read what the last execution leaves in memory.

    Stops at begin and end of an execution change no counts of instructions.
    """
    this, runs = 0, job.request.runs
    for number in range(runs):
        job.stages("running", number, runs)
        probe.watch((begin,))
        probe.run_to_watched(job.limit_s)
        this = probe.argument()
        probe.watch((probe.return_address(),))
        probe.run_to_watched(job.limit_s)
    return _read_memory(job, elf, probe, this)


def _read_memory(job: _TraceJob, elf: FirmwareElf, probe: DebugProbe, this: int) -> LeftInMemory:
    """Read outputs and allocators at the end of an execution; the board is halted."""
    request = job.request
    if request.outputs:
        variables = [elf.variable(name) for name in request.outputs]
        outputs = read_variables(variables, probe.read, job.method)
        return LeftInMemory(outputs, "", {} if request.at else read_pools_of(this, probe.read))
    if request.at:
        return LeftInMemory(unread="name a variable with --output-variable")
    pools = read_pools_of(this, probe.read)
    if job.method is None:
        return LeftInMemory(unread="their types are not known without a model", pools=pools)
    try:
        return LeftInMemory(read_outputs_of(this, probe.read, job.method), "", pools)
    except UnreadOutputsError as error:
        return LeftInMemory(unread=error.message, pools=pools)


def _trace_by_stops(job: _TraceJob) -> TracedRun:
    """Trace under QEMU through its gdbserver."""
    elf = FirmwareElf(job.request.elf)
    begins = _begins(job, elf)
    counter = parse_counter(job.request.counter, job.request.counter_hz, job.board.timer)
    directory = RunDirectory.create(job.request.output)
    try:
        with _debugged(job, elf, ()) as probe:
            followed, memory = _follow(job, elf, probe, begins, counter)
            link = disturbance(probe)
    except TargetError as error:
        raise _explained(error, _console(job)) from error
    directory.write(CONSOLE, _console(job))
    return _stopped(job, directory, elf, followed, counter, link, memory, None)


@contextmanager
def _debugged(job: _TraceJob, elf: FirmwareElf, more: tuple[str, ...]) -> Iterator[DebugProbe]:
    """Run the firmware in QEMU as `_machine`, halted before its first instruction."""
    if sys.platform == "win32":
        raise UsageError("Python has no UNIX sockets on Windows, which QEMU is debugged through")
    path = job.working / "gdb"
    waiting = ("-S", "-gdb", f"unix:path={path},server=on,wait=off")
    with (
        _machine(job, elf, (*waiting, *more), counting=bool(more)) as qemu,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        if not qemu.wait_for(lambda: not connection.connect_ex(str(path)), _CONNECT_S):
            raise InfrastructureError(
                qemu.describe_end() or f"{qemu.name} does not accept a debugger"
            )
        with attach(connection, f"of {qemu.name}") as probe:
            yield probe


def _trace_by_probe(job: _TraceJob) -> TracedRun:
    """Trace a board through a debug probe."""
    request = job.request
    elf = FirmwareElf(request.elf)
    begins = _begins(job, elf)
    counter = parse_counter(request.counter, request.counter_hz, job.board.timer)
    directory = RunDirectory.create(request.output)
    with probe_of(request.chosen, job.board, "trace") as (chosen, probe):
        probe.halt()
        if request.reset is not None:
            probe.reset(request.reset)
        check_firmware(elf, probe.read)
        followed, memory = _follow(job, elf, probe, begins, counter)
        link = disturbance(probe)
    return _stopped(job, directory, elf, followed, counter, link, memory, chosen)


_Begins = tuple[int, dict[int, str]]
"""The function that is an execution, and those that are called once per operator."""


def _begins(job: _TraceJob, elf: FirmwareElf) -> _Begins:
    """Return where an execution and its operators begin.

    Raises:
        FormatError: The image contains no ExecuTorch, or not enough of it.
        UsageError: A function is missing, or there are too many.
    """
    request = job.request
    if not request.at:
        code = find_executorch(elf)
        execute = code.of(Role.EXECUTE)
        assert execute is not None
        return execute.begin, instruction_begins(code, display_path(elf.path))
    if request.execution is None:
        raise UsageError("--at with breakpoints needs --execution: the function that is one")
    (execution,) = matching_functions(elf, [request.execution], most=1)
    functions = matching_functions(elf, request.at)
    if not request.stops and len(functions) > MOST_BREAKPOINTS - 1:
        raise UsageError(
            f"--at names {counted(len(functions), 'function')}, but cores have few breakpoints",
            hint=f"name up to {MOST_BREAKPOINTS - 1} functions",
        )
    return execution.address, {each.address: qualified_name(each.name) for each in functions}


def _follow(
    job: _TraceJob, elf: FirmwareElf, probe: DebugProbe, begins: _Begins, counter: MemoryCounter
) -> tuple[Stopped, LeftInMemory]:
    execution, functions = begins
    follower = StopFollower(probe, counter, job.limit_s, execution=execution, thumb=elf.is_thumb)
    place: PlaceOf = InstructionPlaces(probe, job.method)
    if job.request.at:
        place = partial(_in_order, functions)
    runs = job.request.runs
    follower.follow(functions, runs, place, lambda done: job.stages("running", done, runs))
    memory = _read_memory(job, elf, probe, follower.this)
    return follower.trace(), memory


def _in_order(functions: Mapping[int, str], at: int, number: int) -> Described:
    return (functions[at],), (0, number)


def _stopped(
    job: _TraceJob,
    directory: RunDirectory,
    elf: FirmwareElf,
    followed: Stopped,
    counter: MemoryCounter,
    link: dict[str, int],
    memory: LeftInMemory,
    chosen: Chosen | None,
) -> TracedRun:
    cost = followed.cost
    measured = {"stop_ticks": cost.ticks, "stop_bound_ticks": cost.bound, "stops": cost.stops}
    run = _finish(
        job,
        directory,
        followed.trace,
        elf,
        counter.clock,
        memory,
        chosen,
        {**link, **measured},
    )
    return TracedRun(run, memory, cost, counter)


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


@contextmanager
def _machine(
    job: _TraceJob, elf: FirmwareElf, more: tuple[str, ...], *, counting: bool
) -> Iterator[ProcessTarget]:
    """Run the firmware in QEMU until the block ends.

    Raises:
        UsageError: QEMU is not installed, or a function or file is not there.
        InfrastructureError: It cannot be started.
    """
    request, board, machine = job.request, job.board, job.board.target
    assert isinstance(machine, QemuTarget)
    program = shutil.which(machine.system)
    if program is None:
        raise UsageError(
            f"board {board.name} needs {machine.system}, which is not installed",
            hint=f"on Debian or Ubuntu: apt-get install {package_of(machine.system)}",
        )
    image = patched_image(elf, request.returns, job.working)
    command = [program, "-M", machine.machine, "-kernel", str(image), "-nodefaults"]
    command += ["-display", "none", "-monitor", "none", "-semihosting"]
    command += _steady(machine) if counting else machine.arguments
    for address, file in request.files:
        if not file.is_file() or "," in str(file):
            raise UsageError(
                f"cannot put {display_path(file)} into memory: it is no file that QEMU can load",
                hint="name a file whose path has no comma",
            )
        command += ["-device", f"loader,file={file},addr={address:#x},force-raw=on"]
    for uart in _uarts(job):
        command += ["-serial", f"file:{uart}"]
    with ProcessTarget(f"{machine.system} ({board.name})", [*command, *more]) as qemu:
        yield qemu


def _steady(machine: QemuTarget) -> Iterator[str]:
    """Yield the machine's arguments, with a clock that real time does not move.

    By default it also advances while the machine idles, and a debugger's stop may count as that.
    Without that a counter that is read at stops would advance in large steps.
    """
    before = ""
    for word in machine.arguments:
        yield f"{word},sleep=off" if before == "-icount" and "sleep=" not in word else word
        before = word


def _uarts(job: _TraceJob) -> list[Path]:
    return [job.working / f"uart{number}" for number in range(_UARTS)]


def _console(job: _TraceJob) -> bytes:
    """Return what the firmware printed on its serial ports."""
    return b"".join(uart.read_bytes()[-_MOST_CONSOLE:] for uart in _uarts(job) if uart.exists())


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
    job: _TraceJob,
    directory: RunDirectory,
    traced: Trace,
    elf: FirmwareElf,
    clock: ClockDomain,
    memory: LeftInMemory,
    chosen: Chosen | None = None,
    link: Mapping[str, int] | None = None,
) -> EvaluatedRun:
    """Write trace and result."""
    request, board = job.request, job.board
    trace, summary = save_trace(write_ed00(traced), b"", (clock,), directory)
    described: Model | None = None
    if job.model is not None:
        path = job.model.path
        named = RunRequest(
            request.chosen.board, path, request.runs, request.output, method=request.method
        )
        described = replace(
            describe_model(named, job.model, board),
            outputs=tuple(
                save_output(directory, number, *output)
                for number, output in enumerate(memory.outputs)
            ),
            outputs_unread=memory.unread,
        )
    port = chosen.port_name if chosen is not None else None
    return finish_pull(
        directory,
        board,
        trace,
        began=job.began,
        unit=(chosen or request.chosen).unit or port or board.name,
        port=port,
        runs_requested=request.runs,
        runs_completed=summary.executions or 0,
        model=described,
        target=TargetRecord(
            board=board.name,
            cpu=board.cpu,
            build_id=read_image(elf.path).build_id() or elf.build_id,
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
        link={**(link or {}), **pool_records(memory.pools)},
    )
