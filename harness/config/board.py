"""Board: a type of board, described by a TOML file in ``boards/``."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec.structs import force_setattr, replace

from harness.config.toml_file import read_document
from harness.errors import UsageError, did_you_mean
from harness.files import absolute, data_directory
from harness.records.result import CoreRecord

Positive = Annotated[int, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
FileName = Annotated[str, msgspec.Meta(pattern=r"\A\w[\w.+-]*\Z")]
"""A name that stays in its directory, and that no program takes for an option."""

Word = Annotated[str, msgspec.Meta(pattern=r"\A(\w[\w.+/:@=,-]*)?\Z")]
"""An argument that no program takes for an option or for several words; "" for none."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a file that people write: unknown keys are errors, all numbers are finite."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is not a finite number")


class Build(Strict, frozen=True):
    """How to build the firmware: a CMake preset of ``firmware_stub`` and the image it produces.

    ``port`` is the folder of a port outside of ``firmware_stub``, relative to the board file; the
    core decides the preset then.
    ``executorch``: the firmware links ExecuTorch instead of our runtime and kernels: the installed
    executorch package if it is a process of this host, else an installation for the board's core,
    with ``kernels``, its libraries that register kernels and backends.
    """

    preset: FileName = ""
    port: str = ""
    image: FileName = "firmware"
    executorch: bool = False
    kernels: tuple[str, ...] = ()


class NativeTarget(Strict, frozen=True, tag="native", tag_field="kind"):
    """The firmware as a process of this host, on a pseudo-terminal."""

    runs: ClassVar[str] = "on this host"


class QemuTarget(Strict, frozen=True, tag="qemu", tag_field="kind"):
    """A QEMU machine whose first UART is the link.

    ``runner`` is for an image that nobody here builds and that has no link: the plugin of
    ``etharness.targets`` that has the image and runs models on it.
    """

    runs: ClassVar[str] = "simulated"
    machine: str
    system: str = "qemu-system-arm"
    arguments: tuple[str, ...] = ()
    runner: Word = ""


RtlCore = Literal["cv32e40p", "ibex", "vexriscv"]
"""Cores whose source code can be simulated."""


class RtlTarget(Strict, frozen=True, tag="rtl", tag_field="kind"):
    """The source code of a core under Verilator, with a testbench whose UART is the link.

    ``wait_states`` delays each answer of the memory by that many cycles. ``profile_guided`` builds
    the simulator twice, the second time with what a short run has shown: it is faster then.
    """

    runs: ClassVar[str] = "simulated RTL"
    plugin: ClassVar[str] = "rtl"
    time: ClassVar[str] = "emulated"
    core: RtlCore
    profile_guided: bool = False
    wait_states: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0


class CommandTarget(Strict, frozen=True, tag="command", tag_field="kind"):
    """A simulator that a command starts, whose UART is the link (docs/simulators.md).

    ``argv`` is the command, with placeholders such as ``{image}``. ``time`` is "emulated" if its
    clocks count steps of the simulator, and "real" if they follow the host's. ``version`` is a
    command that ends with 0 where the simulator is installed, ``install`` says how to install it.
    """

    runs: ClassVar[str] = "simulated"
    plugin: ClassVar[str] = "command"
    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    time: Literal["emulated", "real"]
    version: tuple[str, ...] = ()
    install: str = ""


class SerialTarget(Strict, frozen=True, tag="serial", tag_field="kind"):
    """A real board on a serial port that the user names with ``--port``.

    ``baud`` is its rate after a reset, ``bauds`` are the rates to try then, best first.
    """

    runs: ClassVar[str] = "real"
    baud: Positive = 115_200
    bauds: tuple[Positive, ...] = ()


class Timer(Strict, frozen=True):
    """The counter that timestamps events, as the firmware must report it.

    ``tolerance_ppm`` is the largest error of its rate, parts per million; a crystal's is some tens.
    It narrows the bounds of events on the host's clock. Without it 1 % is accepted when the rate
    is checked (docs/checks/I21-clock-rate.md). ``wander_ppm`` is the largest change of the rate in
    a run, as of an oscillator that warms up; it widens the bounds. ``monotonic`` says that no event
    is logged with an earlier reading than the one before it, as by one core without interrupts that
    log events: a small step back is then a wrap. ``emulated`` says that it counts steps of a
    simulator, which follow no real time.
    """

    source: str
    bits: Annotated[int, msgspec.Meta(ge=8, le=64)]
    hz: Positive
    tolerance_ppm: Annotated[float, msgspec.Meta(ge=0, lt=1_000_000)] | None = None
    monotonic: bool = False
    wander_ppm: Annotated[float, msgspec.Meta(ge=0, lt=1_000_000)] = 0.0
    emulated: bool = False


class BoardMemory(Strict, frozen=True):
    """Memory sizes in bytes, as in the board's linker script.

    ``code`` is the flash or the memory used as flash; without it the code is in RAM, too.
    """

    ram: Positive
    code: Positive | None = None


class Capacity(Strict, frozen=True):
    """Bytes that the firmware reserves, as in the board's ``port.cmake`` and in its HELLO.

    ``model`` is for the ``.pte`` file (0: models are placed in the image), ``arena`` for the method
    and its planned memory, ``inputs`` for the inputs of an execution, ``trace`` for the log (0: it
    keeps none), ``values`` for logged tensors.
    """

    model: Annotated[int, msgspec.Meta(ge=0)]
    arena: Positive
    inputs: Positive
    trace: Annotated[int, msgspec.Meta(ge=0)]
    values: Annotated[int, msgspec.Meta(ge=0)] = 0


class Core(CoreRecord, frozen=True, forbid_unknown_fields=True):
    """What the core can do at most in a cycle, for the roofline of its operators.

    ``issue_width`` is the number of instructions it can retire, ``macs_per_cycle`` the integer
    multiply-accumulates, ``bytes_per_cycle`` the bytes it can load or store.
    """

    def record(self) -> CoreRecord:
        """Return the same as results record it."""
        return CoreRecord(self.issue_width, self.macs_per_cycle, self.bytes_per_cycle)


class Deadlines(Strict, frozen=True):
    """Timeouts in seconds: for HELLO after a start, per request, per execution of a model, for a
    lost serial port to come back, and for another process to release a unit.
    """

    boot_s: Seconds = 10.0
    request_s: Seconds = 2.0
    execute_s: Seconds = 30.0
    reopen_s: Seconds = 10.0
    unit_s: Seconds = 60.0


class Flash(Strict, frozen=True):
    """How to flash the board.

    ``order`` lists the tools; the first that is installed and sees the board is used. ``options``
    has a table per tool with its options for this board type. ``verify``: the tool reads back the
    image after writing it. ``timeout_s`` limits a flashing, seconds.
    """

    order: tuple[str, ...]
    options: dict[str, dict[str, Any]] = {}
    verify: bool = True
    timeout_s: Seconds = 120.0


class Board(Strict, frozen=True, dict=True):
    """A board type.

    Attributes:
        schema: Version of this file format, 1.
        name: Name of the board, equal to the stem of the file.
        description: One line for ``etharness boards``.
        cpu: CPU name, as the firmware reports it.
        timer: The counter behind the ticks.
        build: How to build its firmware; None if it is built elsewhere and given as an image.
        flash: How to flash it; None for targets that are started on the host.
        target: How to start it and reach its link.
        memory: Memory sizes; None for a process of this host.
        capacity: Bytes that its firmware reserves; None if they are not known before HELLO.
        core: What its core can do at most in a cycle; None if unknown.
        backends: Names of the delegates' backends that its firmware links.
        deadlines: Timeouts.
        budget: Default budget file, relative to the board file.
        time_scales: Tick rates of delegates' events that have none in the log: patterns, with a
            rate each (docs/clocks.md).
        metadata: Counters in the metadata of delegates' events: patterns, with a layout each
            (docs/delegates.md).
        tested: Simulators and real boards that this file was tested on; "no" for none.

    Examples:
        >>> import harness
        >>> board = harness.Board.load("native")
        >>> board.name, board.cpu
        ('native', 'host')
        >>> board.file.name
        'native.toml'
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    name: str
    description: str
    cpu: str
    timer: Timer
    target: NativeTarget | QemuTarget | RtlTarget | CommandTarget | SerialTarget
    build: Build | None = None
    flash: Flash | None = None
    memory: BoardMemory | None = None
    capacity: Capacity | None = None
    core: Core | None = None
    backends: tuple[str, ...] = ()
    deadlines: Deadlines = Deadlines()
    budget: str | None = None
    time_scales: dict[str, str] = {}
    metadata: dict[str, str] = {}
    tested: str = "no"

    @classmethod
    def load(cls, name: str | os.PathLike[str]) -> Board:
        """Load a board by name, or a board file by its path, which ends in ``.toml``.

        Raises:
            UsageError: There is no such board; the hint names a similar one.
        """
        return load_board(os.fspath(name))[0]

    @property
    def file(self) -> Path:
        """The board file it was loaded from.

        Raises:
            UsageError: It was made in Python, or changed.
        """
        found: Path | None = self.__dict__.get("_file")
        if found is None:
            raise UsageError(
                f"board {self.name} was not loaded from a file",
                hint="write a board file, and load it with Board.load",
            )
        return found

    @property
    def emulated_time(self) -> bool:
        """Whether its clocks count steps of a simulator instead of real time."""
        if self.timer.emulated or getattr(self.target, "time", "real") == "emulated":
            return True
        return isinstance(self.target, QemuTarget) and "-icount" in self.target.arguments

    @property
    def simulator(self) -> str:
        """The plugin that starts its simulator; "" for targets that start without one."""
        return getattr(self.target, "plugin", "")

    @property
    def runner(self) -> str:
        """The plugin that runs models on its image, which is not built here; "" for all others."""
        return self.target.runner if isinstance(self.target, QemuTarget) else ""

    @property
    def links_executorch(self) -> bool:
        """Whether its firmware is built here with ExecuTorch's own runtime."""
        return self.build is not None and self.build.executorch

    @property
    def links_installed_executorch(self) -> bool:
        """Whether that runtime comes from an installation for the board's core."""
        return self.links_executorch and not isinstance(self.target, NativeTarget)

    @property
    def untested(self) -> bool:
        """Whether the file was tested neither on a board nor on a simulator."""
        return self.tested == "no"


def board_names() -> list[str]:
    """Return the names of the packaged boards, sorted."""
    return sorted(path.stem for path in data_directory("boards").glob("*.toml"))


def load_board(name: str) -> tuple[Board, Path]:
    """Load a board by name, or by path if ``name`` ends in ``.toml``.

    Returns:
        The board and the path of its file.

    Raises:
        UsageError: There is no such board (the hint names a similar one), or its file is invalid.
    """
    if name.endswith(".toml"):
        path = absolute(name)
    else:
        known = board_names()
        if name not in known:
            raise UsageError(
                f"no such board: {name!r}",
                hint=f"{did_you_mean(name, known)}`etharness boards` lists {len(known)}; or give "
                "the path of a board file",
            )
        path = data_directory("boards") / f"{name}.toml"
    board = read_document(path).as_(Board)
    if board.name != path.stem:
        raise UsageError(
            f"{path}: `name` is {board.name!r}, but the file is named {path.stem!r}",
            hint="rename the file, or change `name`",
        )
    if board.build is None and not (isinstance(board.target, SerialTarget) or board.runner):
        raise UsageError(
            f"{path}: the key 'build' is missing; only boards on serial ports, or with "
            "`target.runner`, come without it",
            hint="add `build = { preset = ... }` with the CMake preset of its firmware, or "
            "`build = { port = ... }` with the folder of your port",
        )
    if board.build is not None and (board.build.port or not board.build.preset):
        board = replace(board, build=_located(board.build, board.cpu, path))
    force_setattr(board, "_file", path)
    if os.environ.get("ETHARNESS_BOARD_CODE") == "no" and (code := _code_of(board)):
        raise UsageError(
            f"{path}: {code} runs code of this file, which ETHARNESS_BOARD_CODE=no forbids",
            hint="unset ETHARNESS_BOARD_CODE if you trust the file; the action has the input "
            "`board-code`",
        )
    return board, path


def _located(build: Build, cpu: str, file: Path) -> Build:
    """Return the build of a port outside of the package, with its path and preset."""
    port = (file.parent / build.port).resolve()
    if not (build.port and (port / "port.cmake").is_file()):
        what = f"build.port: {port} has no port.cmake" if build.port else "build: no preset or port"
        remedy = "`etharness new-board NAME` makes a port from the template"
        raise UsageError(f"{file}: {what}", hint=remedy)
    preset = "port-riscv" if cpu.startswith("rv") else "port-cortex-m"
    return replace(build, port=str(port), preset=build.preset or preset)


def _code_of(board: Board) -> str:
    """Return the key by which a board file from outside the package runs code; "" for none."""
    if board.file.parent == data_directory("boards"):
        return ""
    if isinstance(board.target, QemuTarget) and not board.target.system.startswith("qemu-system-"):
        return "target.system"
    if isinstance(board.target, CommandTarget):
        return "target.argv"
    return "build.port" if board.build is not None and board.build.port else ""


def attached(board: Board, baud: int | None) -> Board:
    """Return a copy of the board as one on a serial port, with ``baud`` as its rate if given."""
    serial = board.target if isinstance(board.target, SerialTarget) else SerialTarget()
    return replace(board, target=replace(serial, baud=baud or serial.baud))
