"""OpenOCD 0.12 and newer, with all debug adapters that it supports."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, ESP_JTAG, FTDI, J_LINK, ST_LINK
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class OpenOcdOptions(Strict, frozen=True):
    """``config`` are scripts for adapter and chip, or for the board; ``before`` are commands after
    these, such as ``transport select swd``. ``address`` is the load address of a flat image.
    """

    config: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    address: int | None = None


class OpenOcd(Tool[OpenOcdOptions]):
    """Writes, compares and resets with OpenOCD's command ``program``."""

    name = "openocd"
    programs = (ToolProgram("openocd", "apt-get install openocd"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.HEX)
    options_type = OpenOcdOptions
    selects_probe = True
    probes = (*ST_LINK, *J_LINK, *CMSIS_DAP, *FTDI, *ESP_JTAG)

    def resolve_paths(self, options: OpenOcdOptions, folder: Path) -> OpenOcdOptions:
        """Resolve scripts beside the board file; OpenOCD finds all others in its search path."""
        config = (folder / script for script in options.config)
        found = (str(path) if path.is_file() else "" for path in config)
        names = zip(found, options.config, strict=True)
        return replace(options, config=tuple(path or name for path, name in names))

    def commands(self, job: Job[OpenOcdOptions]) -> tuple[FlashStep, ...]:
        """Return one call; the serial number comes before the command that opens the adapter."""
        if not job.options.config:
            raise UsageError(
                f"no OpenOCD configuration for board {job.board}",
                hint='set `config = ["interface/...cfg", "target/...cfg"]` in '
                "[flash.options.openocd] of the board file",
            )
        image = job.image_as(*self.formats)
        argv = [job.program]
        for script in job.options.config:
            argv += ["-f", script]
        for command in job.options.before:
            argv += ["-c", command]
        if serial := job.probe_serial:
            argv += ["-c", f"adapter serial {_quoted(serial)}"]
        verify = " verify" if job.verify else ""
        argv += ["-c", f"program {_quoted(str(image.path))}{verify} reset exit"]
        stage = "write, verify, reset" if job.verify else "write, reset"
        proof = r"\*\* Verified OK \*\*" if job.verify else r"\*\* Programming Finished \*\*"
        denial = r"\*\* (Verify|Programming) Failed \*\*"
        return (FlashStep(stage, tuple(argv), image.files, proof, denial),)


def _quoted(text: str) -> str:
    """Return a braced word of Tcl, without substitutions.

    Raises:
        UsageError: The text contains braces or backslashes.
    """
    if set(text) & set("{}\\") or not text.isprintable():
        raise UsageError(f"OpenOCD does not support {text!r}", hint="use a path without { } and \\")
    return f"{{{text}}}"
