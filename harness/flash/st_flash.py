"""st-flash of the stlink tools, with an ST-Link."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.flash.image import ImageFormat
from harness.flash.probes import ST_LINK
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class StFlashOptions(Strict, frozen=True):
    """``under_reset``: connect while reset is held; ``frequency`` in kHz; ``address`` is where a
    flat image belongs.
    """

    under_reset: bool = False
    frequency: int | None = None
    address: int | None = None


class StFlash(Tool[StFlashOptions]):
    """Writes; st-flash always verifies and reports it."""

    name = "st-flash"
    programs = (ToolProgram("st-flash", "apt-get install stlink-tools"),)
    formats: ClassVar = (ImageFormat.HEX, ImageFormat.BIN)
    options_type = StFlashOptions
    selects_probe = True
    probes = ST_LINK

    def commands(self, job: Job[StFlashOptions]) -> tuple[FlashStep, ...]:
        """Return one call."""
        image = job.image_as(*self.formats)
        argv = [job.program, "--reset"]
        if job.options.under_reset:
            argv.append("--connect-under-reset")
        if job.options.frequency:
            argv.append(f"--freq={job.options.frequency}")
        if serial := job.probe_serial:
            argv += ["--serial", serial]
        if image.format is ImageFormat.HEX:
            argv += ["--format", "ihex", "write", str(image.path)]
        else:
            argv += ["write", str(image.path), hex(job.image.address)]
        return (
            FlashStep("write, verify, reset", tuple(argv), image.files, r"written and verified"),
        )
