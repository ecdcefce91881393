"""Copies the image to the USB drive of a bootloader or a debug probe.

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
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import FlashError, UsageError
from harness.files import read_regular
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, RP_BOOT, Probe
from harness.flash.tool import WRITE, FlashStep, Job, Tool
from harness.target.ports import system_root

_POLL_S: Final = 0.05
_GONE_S: Final = 10.0
"""Default wait for the board to accept a complete file, seconds."""

_MOUNTS: Final = ("/media", "/run/media", "/mnt", "/Volumes")
_PROGRAM: Final = Path(__file__).with_name("copy_to_drive.py")
_MARKS: Final = ("INFO_UF2.TXT", "DETAILS.TXT", "MBED.HTM")


class CopyOptions(Strict, frozen=True):
    """``format`` that the drive accepts; ``label`` of the drive, mounted below /media, /run/media,
    /mnt or /Volumes, or ``mount``, the path of its mount point (on Windows always: its letter, such
    as ``E:/``); ``family`` is the chip's UF2 family id; ``address`` is the load address of a flat
    image; ``settle_s`` is the longest wait for the board to accept the file, seconds.
    """

    format: Literal["uf2", "hex", "bin"]
    label: str = ""
    mount: str = ""
    family: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] | None = None
    address: int | None = None
    settle_s: Annotated[float, msgspec.Meta(gt=0)] = _GONE_S


class Copy(Tool[CopyOptions]):
    """Copies without verification: these drives do not return the file written to them."""

    name = "copy"
    programs = ()
    formats: ClassVar = (ImageFormat.UF2, ImageFormat.HEX, ImageFormat.BIN)
    options_type = CopyOptions
    version = None
    selects_probe = True
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


def _is_of(drive: Path, probe: Probe | None) -> bool:
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
