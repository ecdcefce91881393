"""What a flashing tool is: what it can do, what it needs, and the commands that it would run.

A tool only says; ``execute.py`` runs. So every tool can be shown without being installed, and a new
one is a class of a few lines.
"""

from __future__ import annotations

import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar

from harness.config.board import Strict
from harness.errors import UsageError
from harness.files import absolute
from harness.flash.image import Image, ImageFormat
from harness.flash.probes import Probe

Options = TypeVar("Options", bound=Strict)

WRITE: Final = "write"
VERIFY: Final = "verify"
RESET: Final = "reset"


@dataclass(frozen=True, slots=True)
class ToolProgram:
    """A program that a tool consists of: other names it goes by, and how to get it."""

    name: str
    remedy: str
    others: tuple[str, ...] = ()

    def find(self) -> str | None:
        """Its path, here or beside this Python, where pip puts programs; None if it is missing."""
        beside = str(Path(sys.executable).parent)
        for name in (self.name, *self.others):
            if found := shutil.which(name) or shutil.which(name, path=beside):
                # $PATH may have relative folders, and tools are started elsewhere.
                return str(absolute(found))
        return None


@dataclass(frozen=True, slots=True)
class FlashStep:
    """A command of a tool.

    Attributes:
        stage: What it does: write, verify or reset, or several of these.
        argv: The program and its arguments.
        files: Files that it reads and that are written for it.
        proof: A pattern that its output holds if it has done its work; "" if its exit code says.
        denial: A pattern that its output holds only if it has failed; likewise.
    """

    stage: str
    argv: tuple[str, ...]
    files: Mapping[Path, bytes] = field(default_factory=dict)
    proof: str = ""
    denial: str = ""


@dataclass(frozen=True, slots=True)
class Job(Generic[Options]):
    """What a tool is to do.

    Attributes:
        board: Name of the board's type.
        image: What to write.
        work: Directory for files that are made for the tool.
        options: What the board file says for this tool.
        verify: Have it read back what it has written.
        probe: The debug probe or bootloader to use; None to leave that to the tool.
        port: The board's serial port; None if there is none.
        server: Where a gdbserver of the board listens, if one was started for it.
        program: Path of the tool's first program, or its name if it is not installed.
    """

    board: str
    image: Image
    work: Path
    options: Options
    verify: bool = True
    probe: Probe | None = None
    port: str | None = None
    server: str | None = None
    program: str = ""

    def image_as(self, *formats: ImageFormat, family: int | None = None) -> TakenFile:
        """The image in one of these formats, the given one if possible, else made of it.

        Raises:
            UsageError: It cannot be made.
        """
        image = self.image
        if image.format in formats:
            return TakenFile(image.path, image.format, {})
        for wanted in formats:
            if wanted is ImageFormat.UF2 and family is None:
                continue
            if wanted is not ImageFormat.ELF:
                if wanted is not ImageFormat.BIN:
                    image.address  # noqa: B018  a flat image must say where it belongs
                path = self.work / f"{image.path.stem}.{wanted}"
                return TakenFile(path, wanted, {path: _made(image, wanted, family)})
        names = " or ".join(formats)
        raise UsageError(f"{image.path} is needed as {names}, which cannot be made of it")

    def needed_port(self) -> str:
        """The serial port.

        Raises:
            UsageError: None was named.
        """
        if self.port is None:
            raise UsageError(
                f"board {self.board} is flashed over a serial port, and none was named",
                hint="give --port, such as /dev/ttyUSB0",
            )
        return self.port


def _made(image: Image, wanted: ImageFormat, family: int | None) -> bytes:
    if wanted is ImageFormat.HEX:
        return image.as_hex()
    return image.as_bin() if wanted is ImageFormat.BIN else image.as_uf2(family or 0)


@dataclass(frozen=True, slots=True)
class TakenFile:
    """The file that a tool gets: its path and kind, and what to write there first, if anything."""

    path: Path
    format: ImageFormat
    files: Mapping[Path, bytes]


class Tool(ABC, Generic[Options]):
    """A flashing tool.

    Attributes:
        name: As board files and ``--tool`` call it.
        programs: What has to be installed, the one that is asked for its version first.
        formats: Image files that it takes, best first.
        options_type: What ``[flash.options.NAME]`` of a board file may say.
        version: Arguments that make it say its version; None if it has none.
        selects_probe: It can be told which probe to use, and is.
        probes: USB ids of what it can use, VID:PID or VID; none if it uses no USB device itself.
        verifies: It can read back and compare.
        resets: It lets the board run afterwards.
        needs_port: It works over the board's serial port.
        bootloader: Its probes are the board itself in another state: a debug probe that the board
            has, too, does not matter to it.
        settles: The board goes on after the tool has ended.
    """

    name: ClassVar[str]
    programs: ClassVar[tuple[ToolProgram, ...]]
    formats: ClassVar[tuple[ImageFormat, ...]]
    options_type: type[Options]
    version: ClassVar[tuple[str, ...] | None] = ("--version",)
    selects_probe: ClassVar[bool] = False
    probes: ClassVar[tuple[str, ...]] = ()
    verifies: ClassVar[bool] = True
    resets: ClassVar[bool] = True
    needs_port: ClassVar[bool] = False
    bootloader: ClassVar[bool] = False
    settles: ClassVar[bool] = False

    @abstractmethod
    def commands(self, job: Job[Options]) -> tuple[FlashStep, ...]:
        """The commands that it would run, in order; nothing is run or written.

        Raises:
            UsageError: Something that it needs to know was not said.
        """

    def placed(self, options: Options, _folder: Path) -> Options:
        """Options with the paths in them made absolute; they are relative to the board file."""
        return options

    def reads_back(self, _options: Options) -> bool:
        """Whether it can verify, told this."""
        return self.verifies

    def missing(self) -> str | None:
        """How to get what is not installed; None if everything is."""
        remedies = [program.remedy for program in self.programs if program.find() is None]
        return "; ".join(dict.fromkeys(remedies)) or None

    def settle(self, job: Job[Options], timeout_s: float) -> None:
        """Wait until the board has taken what was written, if that takes longer than the tool.

        Raises:
            FlashError: It has refused it.
        """
