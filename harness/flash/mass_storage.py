"""Copying onto the drive that a bootloader or a debug probe pretends to be.

UF2 bootloaders (https://github.com/microsoft/uf2) restart into the firmware when they have all of
it: the drive goes away. DAPLink (https://daplink.io) takes HEX and flat images, and when it comes
back, a file FAIL.TXT on it says what went wrong; the copy itself succeeds either way.
"""

from __future__ import annotations

import getpass
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import FlashError, UsageError
from harness.files import read_regular
from harness.flash import usb
from harness.flash.image import ImageFormat
from harness.flash.probes import Probe
from harness.flash.tool import WRITE, FlashStep, Job, Tool, ToolProgram
from harness.target.ports import system_root

_POLL_S: Final = 0.05
_GONE_S: Final = 10.0
"""How long a board may take to start after it has got everything, seconds."""

_MOUNTS: Final = ("/media", "/run/media", "/mnt")
_MARKS: Final = ("INFO_UF2.TXT", "DETAILS.TXT", "MBED.HTM")


class CopyOptions(Strict, frozen=True):
    """``format`` that the drive takes; ``label`` it is mounted under, below /media, /run/media or
    /mnt, or ``mount``, where it is; ``family`` is the chip's number in UF2 files; ``address`` is
    where a flat image belongs; ``settle_s`` is how long the board may take to go on, seconds.
    """

    format: Literal["uf2", "hex", "bin"]
    label: str = ""
    mount: str = ""
    family: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] | None = None
    address: int | None = None
    settle_s: Annotated[float, msgspec.Meta(gt=0)] = _GONE_S


class Copy(Tool[CopyOptions]):
    """Nothing is read back: these drives do not hold what was written to them."""

    name = "copy"
    programs = (ToolProgram("cp", "apt-get install coreutils"),)
    formats: ClassVar = (ImageFormat.UF2, ImageFormat.HEX, ImageFormat.BIN)
    options_type = CopyOptions
    version = None
    selects_probe = True
    probes = (*usb.RP_BOOT, *usb.CMSIS_DAP)
    bootloader = True
    verifies = False
    settles = True

    def placed(self, options: CopyOptions, folder: Path) -> CopyOptions:
        """With where the drive is."""
        return replace(options, mount=str(folder / options.mount)) if options.mount else options

    def commands(self, job: Job[CopyOptions]) -> tuple[FlashStep, ...]:
        """Copy, and do not end before it is on the drive, or the drive has gone with it."""
        options = job.options
        image = job.image_as(ImageFormat(options.format), family=options.family)
        script = 'cp -- "$1" "$2" || exit 1; sync -f -- "$2" 2>/dev/null || [ ! -e "$2" ]'
        argv = ("sh", "-c", script, "copy", str(image.path), str(_target(job)))
        return (FlashStep(WRITE, argv, image.files),)

    def settle(self, job: Job[CopyOptions], timeout_s: float) -> None:
        """Wait until the board has taken the file: it goes, and DAPLink's drive comes back.

        Raises:
            FlashError: FAIL.TXT says that it has not, or nothing happens.
        """
        target = _target(job)
        limit = min(timeout_s, job.options.settle_s)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not target.exists():
                # While the image is there, a FAIL.TXT is from before it.
                if (reason := _failure(target.parent)) is not None:
                    raise FlashError(
                        f"the board has refused the image: {reason}",
                        hint="is the image of this board, whole, and in the format that it takes?",
                        again=re.search("(?i)type: *(interface|transient)", reason) is not None,
                    )
                if ImageFormat(job.options.format) is ImageFormat.UF2 or _marks(target.parent):
                    return
            time.sleep(_POLL_S)
        if target.exists():
            raise FlashError(
                f"after {limit:g} s the board has not taken {target}",
                hint="is the file whole, and of this board? Of another `family` it is ignored",
            )
        raise FlashError(
            f"the drive {target.parent} has not come back after {limit:g} s to say whether the "
            "board has taken the image",
            hint="have it mounted by itself (docs/flashing.md)",
        )


def _target(job: Job[CopyOptions]) -> Path:
    """The file to make on the board's drive.

    Raises:
        UsageError: It is not said which drive it is, or several may be meant.
    """
    options = job.options
    name = f"firmware.{options.format}"
    if options.mount:
        return Path(options.mount) / name
    if not options.label:
        raise UsageError(
            f"it is not said on which drive board {job.board} takes its firmware",
            hint='say `label = "..."` in [flash.options.copy] of the board file',
        )
    drives = [drive for drive in _drives(options.label) if _is_of(drive, job.probe)]
    if len(drives) > 1:
        raise UsageError(
            f"{len(drives)} drives may be that of the board: {', '.join(map(str, drives))}",
            hint="say which with --probe VID:PID:Serial, with which DAPLink's can be told apart, "
            "or with `mount` in [flash.options.copy] of a board file of its own",
        )
    # Where it would be mounted, if it is not: the copying says that it is not there.
    return (drives[0] if drives else Path(_MOUNTS[0], getpass.getuser(), options.label)) / name


def _drives(label: str) -> Iterator[Path]:
    """Drives that are mounted under this name, or under it with a number, as second ones are."""
    for place in _MOUNTS:
        root = system_root() / place.lstrip("/")
        for pattern in (f"{label}*", f"*/{label}*"):
            for path in sorted(root.glob(pattern)):
                if re.fullmatch(rf"{re.escape(label)}\d*", path.name) and _marks(path):
                    yield path


def _is_of(drive: Path, probe: Probe | None) -> bool:
    """Whether a drive may be of this probe: DAPLink's say their serial number."""
    said = re.search(r"(?mi)^Unique ID: *(\S+)", _text(drive / "DETAILS.TXT"))
    return probe is None or not said or said[1].casefold() == probe.serial.casefold()


def _marks(drive: Path) -> bool:
    """Whether it is the drive of a board, and is there."""
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
