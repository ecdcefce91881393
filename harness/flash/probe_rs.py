"""probe-rs, with CMSIS-DAP probes, ST-Links, J-Links, FTDI adapters and Espressif's USB-JTAG."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict, Word
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, ESP_JTAG, FTDI, J_LINK, ST_LINK
from harness.flash.tool import RESET, FlashStep, Job, Tool, ToolProgram


class ProbeRsOptions(Strict, frozen=True):
    """``chip`` as in ``probe-rs chip list``; ``protocol`` swd or jtag; ``speed`` in kHz;
    ``under_reset``: connect under reset. ``address`` is the load address of a flat image.
    """

    chip: Word
    protocol: Word = ""
    speed: int | None = None
    under_reset: bool = False
    address: int | None = None


class ProbeRs(Tool[ProbeRsOptions]):
    """Its probe selectors are ours, VID:PID:Serial."""

    name = "probe-rs"
    programs = (ToolProgram("probe-rs", "see https://probe.rs/docs/getting-started/installation"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.UF2, ImageFormat.BIN)
    options_type = ProbeRsOptions
    selects_probe = True
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK, *FTDI, *ESP_JTAG)

    def commands(self, job: Job[ProbeRsOptions]) -> tuple[FlashStep, ...]:
        """Return a download, with verification by probe-rs, and a reset."""
        options = job.options
        common = ["--non-interactive", "--chip", options.chip]
        if job.probe is not None:
            common += ["--probe", job.probe.selector]
        if options.protocol:
            common += ["--protocol", options.protocol]
        if options.speed:
            common += ["--speed", str(options.speed)]
        if options.under_reset:
            common += ["--connect-under-reset"]
        image = job.image_as(*self.formats)
        where = (
            ["--base-address", hex(job.image.address)] if image.format is ImageFormat.BIN else []
        )
        download = ["--disable-progressbars", *(("--verify",) if job.verify else ())]
        download += ["--binary-format", image.format, *where, str(image.path)]
        stage = "write, verify" if job.verify else "write"
        return (
            FlashStep(stage, (job.program, "download", *common, *download), image.files),
            FlashStep(RESET, (job.program, "reset", *common)),
        )
