"""Base class of flashing tools: capabilities, requirements, and the commands to run.

Tools only return commands; ``execute.py`` runs them. So a dry run works for tools that are not
installed, and a new tool is a class of a few lines. The core has gdb, also for simulated boards,
and commands of a board file.

Debug probes and bootloaders on USB are selected by ``VID:PID:Serial``. Product names cannot tell
two probes of a kind apart. The list comes from Linux's sysfs; no device is opened. USB ids of kinds
of devices are VID:PID, or VID for all devices of a vendor.
"""

from __future__ import annotations

import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.config.unit import UsbPort
from harness.errors import InfrastructureError, UsageError, did_you_mean
from harness.files import absolute, resolve_word
from harness.flash.image import Image, ImageFormat
from harness.target.ports import system_root

ST_LINK: Final = tuple(
    f"0483:{product}"
    for product in ("3744", "3748", "374a", "374b", "374d", "374e", "374f", "3752", "3753", "3754")
)
"""V1, V2, V2-1, V3 (their PIDs in ST's TN1235)."""

J_LINK: Final = ("1366",)
"""SEGGER, also on Nordic's boards."""

CMSIS_DAP: Final = (
    "0d28:0204",  # Arm DAPLink, micro:bit
    "2e8a:000c",  # Raspberry Pi Debug Probe
    "c251:f001",  # Keil ULINK2
    "c251:2750",  # Keil ULINKplus
    "03eb:2111",  # Microchip EDBG
    "03eb:2141",  # Microchip Atmel-ICE
    "03eb:2175",  # Microchip nEDBG
    "1fc9:0143",  # NXP MCU-Link
    "1fc9:0090",  # NXP LPC-Link2
    "0451:bef3",  # TI XDS110
)
FTDI: Final = ("0403:6010", "0403:6011", "0403:6014")
ESP_JTAG: Final = ("303a:1001",)
"""USB-Serial-JTAG built into Espressif's chips."""

ST_DFU: Final = ("0483:df11",)
"""The ROM bootloader of STM32."""

RP_BOOT: Final = ("2e8a:0003", "2e8a:000f")
"""The bootloaders of RP2040 and RP2350."""

_SELECTOR: Final = re.compile(r"([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,4})(?::(.*))?", re.DOTALL)


def connected(root: Path | None = None) -> list[UsbPort]:
    """Return the USB devices of this host, sorted; empty without sysfs.

    Args:
        root: Directory with ``sys``; None for ``system_root``.
    """
    probes = []
    for folder in ((root or system_root()) / "sys/bus/usb/devices").glob("*"):
        texts = [_read(folder / name) for name in ("idVendor", "idProduct", "serial")]
        if texts[0] and texts[1]:
            ids = int(texts[0], 16), int(texts[1], 16)
            probes.append(UsbPort(*ids, texts[2], location=folder.name))
    return sorted(probes)


def choose_probe(
    selector: str, kinds: Collection[str], devices: Sequence[UsbPort], user: str
) -> UsbPort | None:
    """Select one connected device.

    Args:
        selector: VID:PID:Serial or VID:PID; "" for any device of ``kinds``.
        kinds: USB ids that the tool supports, VID:PID or VID; a selector may name others.
        devices: The connected devices.
        user: The board that the probe is for, in messages.

    Returns:
        The device; None without a selector if no known kind is connected: the tool may support
        more kinds.

    Raises:
        UsageError: The selector is invalid, or several devices match; the hint lists them.
        InfrastructureError: The selected device is not connected.
    """
    if not selector:
        matching = [device for device in devices if device.is_of(kinds)]
        if len(matching) > 1:
            raise UsageError(
                f"{len(matching)} probes are connected, and none is selected for {user}",
                hint=f"select one with --probe, or `probe` in units.toml: {_list(matching)}",
            )
        return matching[0] if matching else None
    wanted = parse_selector(selector)
    matching = [device for device in devices if _matches(device, wanted)]
    if len(matching) > 1:
        raise UsageError(
            f"{len(matching)} connected devices match {selector} for {user}",
            hint=f"add the serial number: {_list(matching)}",
        )
    if matching:
        return matching[0]
    if devices:
        probes = [device for device in devices if device.is_of(kinds)] or devices
        raise InfrastructureError(
            f"the probe {selector} of {user} is not connected",
            hint=f"plug it in; connected devices: {_list(probes)}",
        )
    # Without sysfs the tool itself will report a missing probe.
    return wanted


def parse_selector(text: str) -> UsbPort:
    """Parse VID:PID:Serial or VID:PID.

    Raises:
        UsageError: The text is neither.
    """
    match = _SELECTOR.fullmatch(text)
    if match is None:
        raise UsageError(
            f"invalid probe selector {text!r}",
            hint="use VID:PID:Serial, hexadecimal, such as 0483:374b:066DFF485550755187121723",
        )
    vid, pid, serial = match.groups()
    return UsbPort(int(vid, 16), int(pid, 16), serial or "")


def _matches(device: UsbPort, wanted: UsbPort) -> bool:
    # Tools disagree about the case of serial numbers, which are mostly hexadecimal.
    same = not wanted.serial or device.serial.casefold() == wanted.serial.casefold()
    return (device.vid, device.pid) == (wanted.vid, wanted.pid) and same


def _list(devices: Sequence[UsbPort]) -> str:
    return ", ".join(f"{device.selector} (USB {device.location})" for device in devices)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


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


_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


Server = Annotated[str, msgspec.Meta(pattern=r"\A([\w/:[][\w./:@[\]-]*)?\Z")]
"""Address of a gdbserver, which becomes a part of a line of a script; "" for none."""


class GdbOptions(Strict, frozen=True):
    """Address of the gdbserver, and additional gdb commands.

    ``server`` is an argument of ``target remote``: host:port, a socket or a device. ``before`` and
    ``after`` are gdb commands around ``load``; ``after`` has to reset the board.
    """

    server: Server = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ("monitor reset",)


class Gdb(Tool[GdbOptions]):
    """gdb with any gdbserver: OpenOCD's, J-Link's, pyOCD's, QEMU's, a Black Magic Probe.

    Loads an ELF file, compares the board's memory with it, and starts the firmware.
    """

    name = "gdb"
    programs = (
        ToolProgram(
            "gdb-multiarch", "apt-get install gdb-multiarch", ("arm-none-eabi-gdb", "riscv32-gdb")
        ),
    )
    formats = (ImageFormat.ELF,)

    def commands(self, job: Job[GdbOptions]) -> tuple[FlashStep, ...]:
        """Return one gdb call with a script, which stops at the first command that fails."""
        server = job.server or job.options.server
        if not server:
            raise UsageError(
                f"no gdbserver address for board {job.board}",
                hint='set `server = "localhost:3333"` in [flash.options.gdb] of the board file',
            )
        image = job.image_as(ImageFormat.ELF)
        script = [
            "set pagination off",
            "set confirm off",
            "set style enabled off",
            "set remotetimeout 20",
            f"target extended-remote {server}",
            *job.options.before,
            "load",
            *(("compare-sections",) if job.verify else ()),
            *job.options.after,
            # gdb has cached the registers from before the reset.
            "maintenance flush register-cache",
            "echo flashed\\n",
            "detach",
        ]
        path = job.work / "load.gdb"
        argv = (job.program, "-nx", "-batch", "-x", str(path), str(image.path))
        denial = r"MIS-MATCHED|did(n't| not) match|[Ll]oad failed"
        files = {path: "\n".join([*script, ""]).encode()}
        return (FlashStep(job.stages, argv, files, r"(?m)^flashed$", denial),)


class CommandOptions(FlatImageOptions, frozen=True):
    """Commands as program and arguments, run without a shell.

    ``write`` is required, ``verify`` and ``reset`` are optional. Words may contain {image}, {port},
    {probe} (VID:PID:Serial), {serial} (the probe's), {address} (of the image) and {board}.
    ``formats`` are the accepted image formats, preferred first; ``proof`` is a pattern that must
    match the output of ``write``.
    """

    write: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    verify: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    formats: Annotated[tuple[ImageFormat, ...], msgspec.Meta(min_length=1)] = (
        ImageFormat.ELF,
        ImageFormat.BIN,
    )
    proof: str = ""


class CustomCommand(Tool[CommandOptions]):
    """Runs the commands from the board file, for boards that no other tool supports.

    Verifies only with a ``verify`` command.
    """

    name = "command"
    programs = ()
    formats = tuple(ImageFormat)
    version = None
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK, *FTDI, *ESP_JTAG)

    def resolve_paths(self, options: CommandOptions, folder: Path) -> CommandOptions:
        """Resolve words such as ``./flash.sh``."""
        words = {name: getattr(options, name) for name in ("write", "verify", "reset")}
        return replace(
            options,
            **{name: tuple(resolve_word(w, folder) for w in argv) for name, argv in words.items()},
        )

    def commands(self, job: Job[CommandOptions]) -> tuple[FlashStep, ...]:
        """Return the commands with their placeholders replaced."""
        options = job.options
        image = job.image_as(*options.formats)

        def filled(argv: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                _PLACEHOLDER.sub(lambda match: _value(match[1], job, str(image.path)), word)
                for word in argv
            )

        steps = [FlashStep(WRITE, filled(options.write), image.files, options.proof)]
        if job.verify and options.verify:
            steps.append(FlashStep(VERIFY, filled(options.verify)))
        if options.reset:
            steps.append(FlashStep(RESET, filled(options.reset)))
        return tuple(steps)

    def named_programs(self, options: CommandOptions) -> tuple[ToolProgram, ...]:
        """Return the first words of the commands."""
        lines = (options.write, options.verify, options.reset)
        return tuple(
            ToolProgram(argv[0], f"no program {argv[0]}, which [flash.options.command] names")
            for argv in lines
            if argv and not _PLACEHOLDER.search(argv[0])
        )

    def reads_back(self, options: CommandOptions) -> bool:
        """Whether there is a ``verify`` command."""
        return bool(options.verify)


def _value(name: str, job: Job[CommandOptions], image: str) -> str:
    probe = job.probe
    values: dict[str, Callable[[], str]] = {
        "image": lambda: image,
        "port": job.needed_port,
        "probe": lambda: probe.selector if probe else "",
        "serial": lambda: job.probe_serial,
        "address": lambda: hex(job.image.address),
        "board": lambda: job.board,
    }
    if name not in values:
        known = ", ".join(f"{{{word}}}" for word in values)
        raise UsageError(
            f"the flash command of board {job.board} has an unknown placeholder {{{name}}}",
            hint=f"{did_you_mean(name, tuple(values))}known: {known}",
        )
    if name in ("probe", "serial") and probe is None:
        raise UsageError(
            f"the flash command of board {job.board} contains {{{name}}}, and no probe is "
            "connected or given",
            hint="use --probe VID:PID:Serial",
        )
    return values[name]()
