"""OpenOCD 0.12 and newer, with any debug adapter that it has a driver for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import UsageError
from harness.flash import usb
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class OpenOcdOptions(Strict, frozen=True):
    """``config`` are its scripts for adapter and chip, or for the board; ``before`` are commands
    that follow them, such as ``transport select swd``. ``address`` is where a flat image belongs.
    """

    config: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    address: int | None = None


class OpenOcd(Tool[OpenOcdOptions]):
    """Its own command ``program`` writes, compares and resets."""

    name = "openocd"
    programs = (ToolProgram("openocd", "apt-get install openocd"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.HEX)
    options_type = OpenOcdOptions
    selects_probe = True
    probes = (*usb.ST_LINK, *usb.J_LINK, *usb.CMSIS_DAP, *usb.FTDI, *usb.ESP_JTAG)

    def placed(self, options: OpenOcdOptions, folder: Path) -> OpenOcdOptions:
        """With scripts beside the board file; others are where openocd looks for them."""
        config = (folder / script for script in options.config)
        found = (str(path) if path.is_file() else "" for path in config)
        names = zip(found, options.config, strict=True)
        return replace(options, config=tuple(path or name for path, name in names))

    def commands(self, job: Job[OpenOcdOptions]) -> tuple[FlashStep, ...]:
        """One call; the serial number is told it before it opens an adapter."""
        if not job.options.config:
            raise UsageError(
                f"openocd is not told which adapter and chip board {job.board} has",
                hint='say `config = ["interface/...cfg", "target/...cfg"]` in '
                "[flash.options.openocd] of the board file",
            )
        image = job.image_as(*self.formats)
        argv = [job.program]
        for script in job.options.config:
            argv += ["-f", script]
        for said in job.options.before:
            argv += ["-c", said]
        if job.probe is not None and job.probe.serial:
            argv += ["-c", f"adapter serial {_quoted(job.probe.serial)}"]
        verify = " verify" if job.verify else ""
        argv += ["-c", f"program {_quoted(str(image.path))}{verify} reset exit"]
        stage = "write, verify, reset" if job.verify else "write, reset"
        proof = r"\*\* Verified OK \*\*" if job.verify else r"\*\* Programming Finished \*\*"
        denial = r"\*\* (Verify|Programming) Failed \*\*"
        return (FlashStep(stage, tuple(argv), image.files, proof, denial),)


def _quoted(text: str) -> str:
    """As one word of Tcl, in which nothing is replaced.

    Raises:
        UsageError: There is no way to write it so.
    """
    if set(text) & set("{}\\") or not text.isprintable():
        raise UsageError(f"openocd cannot be told {text!r}", hint="choose a path without { } \\")
    return f"{{{text}}}"
