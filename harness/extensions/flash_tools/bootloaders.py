"""Tools for bootloaders: esptool, stm32flash, dfu-util, picotool, and copies to a USB drive.

UF2 bootloaders (https://github.com/microsoft/uf2) start the firmware when the file is complete, and
the drive disappears. DAPLink (https://daplink.io) accepts HEX and flat images and remounts its
drive, with a file FAIL.TXT after a failure; the copy itself succeeds either way.
"""

from __future__ import annotations

import getpass
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict, Word
from harness.config.unit import UsbPort
from harness.errors import FlashError, UsageError
from harness.files import read_regular
from harness.flash.image import ImageFormat
from harness.flash.tool import (
    CMSIS_DAP,
    RESET,
    RP_BOOT,
    ST_DFU,
    VERIFY,
    WRITE,
    FlashStep,
    FlatImageOptions,
    Job,
    Tool,
    ToolProgram,
    option,
)
from harness.target.ports import system_root


class EsptoolOptions(Strict, frozen=True):
    """``chip`` in esptool's spelling; ``baud`` for writing; ``offset`` is the start of the
    application in the flash; ``before`` and ``after`` are esptool's reset modes.
    """

    chip: Word
    offset: int = 0x1_0000
    baud: int = 460_800
    before: Word = "default-reset"
    after: Word = "hard-reset"


class Esptool(Tool[EsptoolOptions]):
    """esptool 5: the ROM bootloader of Espressif's chips, over a serial port.

    Converts an ELF file to an application image; a ``.bin`` must be one, or a merged image.
    """

    name = "esptool"
    programs = (ToolProgram("esptool", "pip install 'etdump-harness[flash]'"),)
    formats = (ImageFormat.ELF, ImageFormat.BIN)
    version = ("version",)
    needs_port = True

    def commands(self, job: Job[EsptoolOptions]) -> tuple[FlashStep, ...]:
        """Convert, write, compare, and reset as set in the board file."""
        options, port = job.options, job.needed_port()
        image = job.image_as(*self.formats)
        path, steps = image.path, []
        if image.format is ImageFormat.ELF:
            path = job.work / f"{image.path.stem}.app.bin"
            make = ("--chip", options.chip, "elf2image", "--output", str(path), str(image.path))
            steps.append(FlashStep("convert", (job.program, *make)))

        def step(stage: str, after: str, *what: str, proof: str = "") -> FlashStep:
            line = ("--port", port, "--baud", str(options.baud))
            resets = ("--before", options.before, "--after", after)
            argv = (job.program, "--chip", options.chip, *line, *resets, *what)
            return FlashStep(stage, argv, proof=proof)

        at = (hex(options.offset), str(path))
        written, matched = r"Hash of data verified", r"Verification successful"
        steps.append(step(WRITE, "no-reset", "write-flash", *at, proof=written))
        if job.verify:
            steps.append(step(VERIFY, "no-reset", "verify-flash", *at, proof=matched))
        return (*steps, step(RESET, options.after, "read-mac"))


class Stm32FlashOptions(FlatImageOptions, frozen=True):
    """``baud`` of the bootloader; ``gpio`` is the DTR and RTS sequence for ``-i``; ``mode`` is
    bits, parity and stop bits of the line, by default 8e1.
    """

    baud: int = 115_200
    gpio: str = ""
    mode: Word = ""


class Stm32Flash(Tool[Stm32FlashOptions]):
    """stm32flash: the ROM bootloader of STM32, over a serial port (ST's AN3155).

    Writes a flat image to its address, reads it back, and starts it.
    """

    name = "stm32flash"
    programs = (ToolProgram("stm32flash", "apt-get install stm32flash"),)
    formats = (ImageFormat.BIN,)
    version = None
    needs_port = True

    def commands(self, job: Job[Stm32FlashOptions]) -> tuple[FlashStep, ...]:
        """Return one call with a flat image: its HEX parser silently drops records."""
        image = job.image_as(*self.formats)
        address = hex(job.image.address)
        argv = [job.program, "-b", str(job.options.baud)]
        argv += option("-m", job.options.mode)
        if job.options.gpio:
            argv += ["-i", job.options.gpio, "-R"]
        argv += ["-w", str(image.path), "-S", address, *(("-v",) if job.verify else ())]
        argv += ["-g", address, job.needed_port()]
        proof = r"Wrote and verified address" if job.verify else r"Wrote address"
        proof += r".*\(100\.00%\)[ \w]*Done"
        return (FlashStep(job.stages, tuple(argv), image.files, proof),)


class DfuUtilOptions(FlatImageOptions, frozen=True):
    """``vid`` and ``pid`` of the bootloader; ``alt`` is the alternate setting of the flash."""

    vid: int = 0x0483
    pid: int = 0xDF11
    alt: int = 0


class DfuUtil(Tool[DfuUtilOptions]):
    """dfu-util, with ST's DfuSe bootloader and others with its address extension.

    Writes, uploads the same range and compares the files, and starts the firmware. The bootloader
    is selected by its USB device, which reports the chip's serial number.
    """

    name = "dfu-util"
    programs = (
        ToolProgram("dfu-util", "apt-get install dfu-util"),
        ToolProgram("cmp", "apt-get install diffutils"),
    )
    formats = (ImageFormat.BIN,)
    probes = ST_DFU
    bootloader = True

    def commands(self, job: Job[DfuUtilOptions]) -> tuple[FlashStep, ...]:
        """Download, upload, compare, leave."""
        options, probe = job.options, job.probe
        image = job.image_as(*self.formats)
        address, size = hex(job.image.address), len(job.image.as_bin())
        vid, pid = (probe.vid, probe.pid) if probe else (options.vid, options.pid)
        serial = option("--serial", job.probe_serial)
        device = ("--device", f"{vid:04x}:{pid:04x}", *serial, "--alt", str(options.alt))

        def call(where: str, transfer: str, file: str) -> tuple[str, ...]:
            return (job.program, *device, "--dfuse-address", where, transfer, file)

        def upload(stage: str, where: str, file: str) -> list[FlashStep]:
            # dfu-util refuses to overwrite a file, such as one from an earlier attempt.
            clear = FlashStep(stage, ("rm", "-f", file))
            return [clear, FlashStep(stage, call(where, "--upload", file))]

        write = call(address, "--download", str(image.path))
        done = "File downloaded successfully|Download done"
        steps = [FlashStep(WRITE, write, image.files, done)]
        if job.verify:
            back = str(job.work / "read-back.bin")
            steps += upload(VERIFY, f"{address}:{size}", back)
            steps.append(FlashStep(VERIFY, ("cmp", str(image.path), back)))
        # `:leave` starts the firmware after a transfer, and a short upload changes nothing.
        return (*steps, *upload(RESET, f"{address}:4:leave", str(job.work / "leave.bin")))


class PicotoolOptions(FlatImageOptions, frozen=True):
    """``force``: ask running firmware to start the bootloader, if it supports that."""

    force: bool = False


class Picotool(Tool[PicotoolOptions]):
    """picotool: the USB bootloaders of RP2040 and RP2350.

    Loads, verifies and starts the firmware in one call.
    """

    name = "picotool"
    programs = (ToolProgram("picotool", "see https://github.com/raspberrypi/picotool/releases"),)
    formats = (ImageFormat.ELF, ImageFormat.UF2, ImageFormat.BIN)
    version = ("version",)
    probes = RP_BOOT
    bootloader = True

    def commands(self, job: Job[PicotoolOptions]) -> tuple[FlashStep, ...]:
        """Return one call."""
        image = job.image_as(*self.formats)
        argv = [job.program, "load", *(("-v",) if job.verify else ()), "-x", str(image.path)]
        argv += ["-t", image.format, *job.base(image, "-o")]
        if job.options.force:
            argv.append("-f")
        argv += option("--ser", job.probe_serial)
        return (FlashStep(job.stages, tuple(argv), image.files, "OK" if job.verify else ""),)


_POLL_S: Final = 0.05
_GONE_S: Final = 10.0
"""Default wait for the board to accept a complete file, seconds."""

_MOUNTS: Final = ("/media", "/run/media", "/mnt", "/Volumes")
_PROGRAM: Final = Path(__file__).with_name("copy_to_drive.py")
_MARKS: Final = ("INFO_UF2.TXT", "DETAILS.TXT", "MBED.HTM")


class CopyOptions(FlatImageOptions, frozen=True):
    """``format`` that the drive accepts; ``label`` of the drive, mounted below /media, /run/media,
    /mnt or /Volumes, or ``mount``, the path of its mount point (on Windows always: its letter, such
    as ``E:/``); ``family`` is the chip's UF2 family id; ``settle_s`` is the longest wait for the
    board to accept the file, seconds.
    """

    format: Literal["uf2", "hex", "bin"]
    label: str = ""
    mount: str = ""
    family: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] | None = None
    settle_s: Annotated[float, msgspec.Meta(gt=0)] = _GONE_S


class Copy(Tool[CopyOptions]):
    """Copies without verification: these drives do not return the file written to them."""

    name = "copy"
    programs = ()
    formats = (ImageFormat.UF2, ImageFormat.HEX, ImageFormat.BIN)
    version = None
    probes = (*RP_BOOT, *CMSIS_DAP)
    bootloader = True
    verifies = False
    settles = True

    def resolve_paths(self, options: CopyOptions, folder: Path) -> CopyOptions:
        """Resolve the mount point."""
        return replace(options, mount=str(folder / options.mount)) if options.mount else options

    def commands(self, job: Job[CopyOptions]) -> tuple[FlashStep, ...]:
        """Return a command that copies and waits until the file is written or the drive gone."""
        options = job.options
        image = job.image_as(ImageFormat(options.format), family=options.family)
        argv = (sys.executable, "-I", str(_PROGRAM), str(image.path), str(_target(job)))
        return (FlashStep(WRITE, argv, image.files),)

    def settle(self, job: Job[CopyOptions], timeout_s: float) -> None:
        """Wait until the file disappears, and with DAPLink until the drive comes back.

        Raises:
            FlashError: FAIL.TXT reports a failure, or the wait timed out.
        """
        target = _target(job)
        limit = min(timeout_s, job.options.settle_s)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not target.exists():
                # (As long as the image is there, a FAIL.TXT is from an earlier attempt.)
                if (reason := _failure(target.parent)) is not None:
                    raise FlashError(
                        f"the board refused the image: {reason}",
                        hint="check that the image is complete, for this board, and in a format "
                        "that it accepts",
                        retryable=re.search("(?i)type: *(interface|transient)", reason) is not None,
                    )
                if ImageFormat(job.options.format) is ImageFormat.UF2 or _marks(target.parent):
                    return
            time.sleep(_POLL_S)
        if target.exists():
            raise FlashError(
                f"the board did not accept {target} within {limit:g} s",
                hint="check that the file is complete, for this board, and of its UF2 `family`: "
                "other families are ignored",
            )
        raise FlashError(
            f"the drive {target.parent} did not come back within {limit:g} s, so the result of "
            "the flashing is unknown",
            hint="enable automatic mounting (`etharness explain flashing`)",
        )


def _target(job: Job[CopyOptions]) -> Path:
    """Return the path of the file to create on the board's drive.

    Raises:
        UsageError: The drive is not configured, or several drives match.
    """
    options = job.options
    name = f"firmware.{options.format}"
    if options.mount:
        return Path(options.mount) / name
    if not options.label:
        raise UsageError(
            f"no drive is configured for flashing board {job.board}",
            hint='set `label = "..."` in [flash.options.copy] of the board file',
        )
    drives = [drive for drive in _drives(options.label) if _is_of(drive, job.probe)]
    if len(drives) > 1:
        raise UsageError(
            f"{len(drives)} drives match board {job.board}: {', '.join(map(str, drives))}",
            hint="select one with --probe VID:PID:Serial (DAPLink), or with `mount` in "
            "[flash.options.copy] of a separate board file",
        )
    # If it is not mounted, return the usual mount point: the copy then fails with a clear error.
    return (drives[0] if drives else _usual_mount(options.label)) / name


def _usual_mount(label: str) -> Path:
    with suppress(OSError, KeyError, ImportError):  # a user without a name
        return Path(_MOUNTS[0], getpass.getuser(), label)
    return Path(_MOUNTS[0], label)


def _drives(label: str) -> Iterator[Path]:
    """Yield drives mounted under this label, or under it with a number appended."""
    for folder in _MOUNTS:
        root = system_root() / folder.lstrip("/")
        for pattern in (f"{label}*", f"*/{label}*"):
            for path in sorted(root.glob(pattern)):
                if re.fullmatch(rf"{re.escape(label)}\d*", path.name) and _marks(path):
                    yield path


def _is_of(drive: Path, probe: UsbPort | None) -> bool:
    """Whether a drive may belong to this probe; DAPLink drives report their serial number."""
    unique_id = re.search(r"(?mi)^Unique ID: *(\S+)", _text(drive / "DETAILS.TXT"))
    if probe is None or unique_id is None:
        return True
    return unique_id[1].casefold() == probe.serial.casefold()


def _marks(drive: Path) -> bool:
    """Whether this is the mounted drive of a board."""
    return any((drive / name).is_file() for name in _MARKS)


def _failure(drive: Path) -> str | None:
    file = drive / "FAIL.TXT"
    if not file.is_file():
        return None
    text = " | ".join(_text(file).split("\n")).strip(" |")
    return "".join(filter(str.isprintable, text))


def _text(file: Path) -> str:
    try:
        return read_regular(file, 2000).decode("utf-8", errors="replace").replace("\r", "")
    except OSError:
        return ""
