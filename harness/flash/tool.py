"""Base class of flashing tools: capabilities, requirements, and the commands to run.

Tools only return commands; ``execute.py`` runs them. So a dry run works for tools that are not
installed, and a new tool is a class of a few lines.
"""

from __future__ import annotations

import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar, get_args, get_origin

from harness.config.board import Strict
from harness.config.unit import UsbPort
from harness.errors import UsageError
from harness.files import absolute
from harness.flash.image import Image, ImageFormat

Options = TypeVar("Options", bound=Strict)


class FlatImageOptions(Strict, frozen=True, kw_only=True):
    """``address`` is the load address of a flat image."""

    address: int | None = None


WRITE: Final = "write"
VERIFY: Final = "verify"
RESET: Final = "reset"


@dataclass(frozen=True, slots=True)
class ToolProgram:
    """A program of a tool, with how to install it (``remedy``) and alternative names."""

    name: str
    remedy: str
    others: tuple[str, ...] = ()

    def find(self) -> str | None:
        """Return its path, from ``$PATH`` or beside this Python (pip); None if it is missing."""
        beside = str(Path(sys.executable).parent)
        for name in (self.name, *self.others):
            if program := shutil.which(name) or shutil.which(name, path=beside):
                # $PATH may have relative folders, and tools run in another working directory.
                return str(absolute(program))
        return None


@dataclass(frozen=True, slots=True)
class FlashStep:
    """A command of a tool.

    Attributes:
        stage: The stage: write, verify or reset, or several of these.
        argv: The program and its arguments.
        files: Input files to create before it runs, by path.
        proof: Pattern that its output must match after success; "" to rely on the exit status.
        denial: Pattern that its output matches only after a failure; "" for none.
    """

    stage: str
    argv: tuple[str, ...]
    files: Mapping[Path, bytes] = field(default_factory=dict)
    proof: str = ""
    denial: str = ""


@dataclass(frozen=True, slots=True)
class Job(Generic[Options]):
    """Parameters of one flashing.

    Attributes:
        board: Name of the board type.
        image: The image to write.
        work: Directory for temporary files of the tool.
        options: The tool's options from the board file.
        verify: Read back the image after writing it.
        probe: The debug probe or bootloader to use; None if the tool selects it.
        port: The board's serial port; None if it has none.
        server: Address of the board's gdbserver, if one was started for it.
        program: Path of the tool's first program, or its name if it is not installed.
    """

    board: str
    image: Image
    work: Path
    options: Options
    verify: bool = True
    probe: UsbPort | None = None
    port: str | None = None
    server: str | None = None
    program: str = ""

    def image_as(self, *formats: ImageFormat, family: int | None = None) -> TakenFile:
        """Return the image in one of these formats, preferably its own, converted if necessary.

        Raises:
            UsageError: The image cannot be converted.
        """
        image = self.image
        if image.format in formats:
            return TakenFile(image.path, image.format, {})
        for wanted in formats:
            if wanted is ImageFormat.UF2 and family is None:
                continue
            if wanted is not ImageFormat.ELF:
                path = self.work / f"{image.path.stem}.{wanted}"
                return TakenFile(path, wanted, {path: image.as_format(wanted, family or 0)})
        names = " or ".join(formats)
        raise UsageError(f"{image.path} cannot be converted to {names}")

    @property
    def probe_serial(self) -> str:
        """Serial number of the probe, as an argument; "" if there is none.

        Raises:
            UsageError: The tool would take it for something else.
        """
        serial = self.probe.serial if self.probe else ""
        if serial.startswith("-") or not serial.isprintable():
            raise UsageError(
                f"the serial number {serial!r} of the probe cannot be an argument of a program",
                hint="use another probe",
            )
        return serial

    def needed_port(self) -> str:
        """Return the serial port.

        Raises:
            UsageError: No port is given.
        """
        if self.port is None:
            raise UsageError(
                f"board {self.board} is flashed over a serial port, and no port is given",
                hint="use --port, such as /dev/ttyUSB0",
            )
        if self.port.startswith("-"):
            raise UsageError(f"{self.port!r} is not a port", hint="such as /dev/ttyUSB0")
        return self.port

    @property
    def stages(self) -> str:
        """Stages of a single command that does everything."""
        return f"{WRITE}, {VERIFY}, {RESET}" if self.verify else f"{WRITE}, {RESET}"

    def base(self, image: TakenFile, *option: str) -> tuple[str, ...]:
        """Return the load address behind an option if the image is flat, else nothing.

        Raises:
            UsageError: The flat image has no load address.
        """
        return (*option, hex(self.image.address)) if image.format is ImageFormat.BIN else ()

    def pieces(self) -> dict[Path, bytes]:
        """Return a flat file for each segment of the image, to compare it with the memory."""
        return {
            self.work / f"piece-{segment.address:08x}.bin": segment.data
            for segment in self.image.segments
        }


def option(name: str, value: object) -> tuple[str, ...]:
    """Return an option and its value as arguments; nothing for an empty value."""
    return (name, str(value)) if value else ()


@dataclass(frozen=True, slots=True)
class TakenFile:
    """The image file for a tool: path, format, and contents to write there first, if converted."""

    path: Path
    format: ImageFormat
    files: Mapping[Path, bytes]


class Tool(ABC, Generic[Options]):
    """A flashing tool.

    Attributes:
        name: Its name in board files and for ``--tool``.
        programs: Programs that must be installed; the first reports the version.
        formats: Supported image formats, preferred first.
        options_type: Type of ``[flash.options.NAME]`` in board files, the parameter of `Tool`.
        version: Arguments that print the version; None if it has no such option.
        probes: USB ids of supported devices, VID:PID or VID; empty if it uses no USB device.
        verifies: It can read back and compare.
        resets: It starts the firmware afterwards.
        needs_port: It uses the board's serial port.
        bootloader: Its USB device is the board's bootloader, so debug probes do not matter.
        settles: The board continues to work on the image after the tool has ended.
    """

    name: ClassVar[str]
    programs: ClassVar[tuple[ToolProgram, ...]]
    formats: ClassVar[tuple[ImageFormat, ...]]
    options_type: type[Options]
    version: ClassVar[tuple[str, ...] | None] = ("--version",)
    probes: ClassVar[tuple[str, ...]] = ()
    verifies: ClassVar[bool] = True
    resets: ClassVar[bool] = True
    needs_port: ClassVar[bool] = False
    bootloader: ClassVar[bool] = False
    settles: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is Tool and "options_type" not in vars(cls):
                [cls.options_type] = get_args(base)

    @property
    def selects_probe(self) -> bool:
        """Whether a probe can be selected with ``--probe``."""
        return bool(self.probes)

    @abstractmethod
    def commands(self, job: Job[Options]) -> tuple[FlashStep, ...]:
        """Return the commands to run, in order; runs and writes nothing.

        Raises:
            UsageError: A required option or parameter is missing.
        """

    def resolve_paths(self, options: Options, _folder: Path) -> Options:
        """Return the options with absolute paths; in board files, paths are relative to these."""
        return options

    def reads_back(self, _options: Options) -> bool:
        """Whether it can verify with these options."""
        return self.verifies

    def named_programs(self, _options: Options) -> tuple[ToolProgram, ...]:
        """Return the programs that the options name, besides ``programs``."""
        return ()

    def settle(self, job: Job[Options], timeout_s: float) -> None:
        """Wait until the board has accepted the image, if that takes longer than the tool runs.

        Raises:
            FlashError: The board refused the image.
        """
