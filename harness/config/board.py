"""Board: a type of board, as a TOML file under ``boards/`` describes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import force_setattr, replace

from harness.config.toml_file import read_toml
from harness.errors import UsageError, did_you_mean
from harness.files import absolute
from harness.resources import data_directory

Positive = Annotated[int, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a file that people write: unknown keys are errors."""


class Build(Strict, frozen=True):
    """How the firmware is built: a CMake preset of ``firmware_stub`` and the image it yields.

    ``executorch``: it links the libraries of the installed executorch package.
    """

    preset: str
    image: str = "firmware"
    executorch: bool = False


class NativeTarget(Strict, frozen=True, tag="native", tag_field="kind"):
    """The firmware as a process of this host, on a pseudo-terminal."""


class QemuTarget(Strict, frozen=True, tag="qemu", tag_field="kind"):
    """A QEMU machine whose first UART is the link."""

    machine: str
    system: str = "qemu-system-arm"
    arguments: tuple[str, ...] = ()


class SerialTarget(Strict, frozen=True, tag="serial", tag_field="kind"):
    """A real board on a serial port that the user names with ``--port``.

    ``baud`` is its rate after a reset, ``bauds`` what to try then, best first.
    """

    baud: Positive = 115_200
    bauds: tuple[Positive, ...] = ()


class Timer(Strict, frozen=True):
    """The counter that stamps events, as the firmware must report it.

    ``tolerance_ppm`` is how far its rate may be off, parts per million: a crystal's is some tens.
    It narrows down when events were on the host's clock. Without it nothing is taken for granted,
    as for a simulator whose time is not the host's. ``wander_ppm`` is how much the rate may change
    while a model runs, as a warm oscillator's does: bounds allow for that.
    """

    source: str
    bits: Annotated[int, msgspec.Meta(ge=8, le=64)]
    hz: Positive
    tolerance_ppm: Annotated[float, msgspec.Meta(ge=0, lt=1_000_000)] | None = None
    wander_ppm: Annotated[float, msgspec.Meta(ge=0, lt=1_000_000)] = 0.0


class BoardMemory(Strict, frozen=True):
    """Bytes the board has, as its linker script knows them.

    ``code`` is the flash, or what stands in for it; without it the code is in RAM too.
    """

    ram: Positive
    code: Positive | None = None


class Deadlines(Strict, frozen=True):
    """Longest waits in seconds: until HELLO is answered, per request, per execution of a model,
    for a serial port that has vanished to come back, and for another process to let a unit go.
    """

    boot_s: Seconds = 10.0
    request_s: Seconds = 2.0
    execute_s: Seconds = 30.0
    reopen_s: Seconds = 10.0
    unit_s: Seconds = 60.0


class Flash(Strict, frozen=True):
    """How firmware gets onto the board.

    ``order`` are the tools that can do it, the first that is installed and sees the board is taken;
    ``options`` are a table per tool, of what it needs to be told of this type of board. ``verify``
    has the tool read back what it has written. ``timeout_s`` is how long it may take, seconds.
    """

    order: tuple[str, ...]
    options: dict[str, dict[str, Any]] = {}
    verify: bool = True
    timeout_s: Seconds = 120.0


class Board(Strict, frozen=True, dict=True):
    """A board type.

    Attributes:
        schema: Version of this file format, 1.
        name: The name users type, equal to the file's name.
        description: One line for ``etharness boards``.
        cpu: As the firmware reports it.
        timer: The counter behind the ticks.
        build: How to make its firmware; None when that is made elsewhere, and given as an image.
        flash: How that gets onto it; None for targets that are started here.
        target: How to start it and reach its link.
        memory: What it has; none is stated for a process of this host.
        deadlines: How long to wait for what.
        budget: Budget file it is checked against by default, relative to the board file.
        time_scales: What the ticks of delegates' events mean where the log does not say so:
            patterns, and a rate each (docs/clocks.md).
        tested: Where this board file has been tried: which simulator, which real board; "no" when
            nobody has.

    Example:
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
    target: NativeTarget | QemuTarget | SerialTarget
    build: Build | None = None
    flash: Flash | None = None
    memory: BoardMemory | None = None
    deadlines: Deadlines = Deadlines()
    budget: str | None = None
    time_scales: dict[str, str] = {}
    tested: str = "no"

    @classmethod
    def load(cls, name: str | os.PathLike[str]) -> Board:
        """Load a board by name, or a board file by its path, which ends in ``.toml``.

        Raises:
            UsageError: There is no such board; the hint lists the packaged boards.
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
    def untested(self) -> bool:
        """Whether nobody has seen it work: not a board, not even a simulator."""
        return self.tested == "no"


def board_names() -> list[str]:
    """Names of the boards that come with the package, sorted."""
    return sorted(path.stem for path in data_directory("boards").glob("*.toml"))


def load_board(name: str) -> tuple[Board, Path]:
    """Load a board by name, or by path when ``name`` ends in ``.toml``.

    Returns:
        The board and the path of its file.

    Raises:
        UsageError: There is no such board; the hint lists what there is.
    """
    if name.endswith(".toml"):
        path = absolute(name)
    else:
        known = board_names()
        if name not in known:
            raise UsageError(
                f"no such board: {name!r}",
                hint=f"{did_you_mean(name, known)}known boards: {', '.join(known)}; or give the "
                "path of a board file",
            )
        path = data_directory("boards") / f"{name}.toml"
    board = read_toml(path, Board)
    if board.name != path.stem:
        raise UsageError(f"{path}: name is {board.name!r}, but the file is called {path.stem!r}")
    if board.build is None and not isinstance(board.target, SerialTarget):
        raise UsageError(
            f"{path}: missing required field `build`: a board that is started here is built here",
            hint="name the CMake preset of its firmware",
        )
    force_setattr(board, "_file", path)
    return board, path


def attached(board: Board, baud: int | None) -> Board:
    """Return the board as one on a serial port; ``baud`` instead of its own when given."""
    serial = board.target if isinstance(board.target, SerialTarget) else SerialTarget()
    return replace(board, target=replace(serial, baud=baud or serial.baud))
