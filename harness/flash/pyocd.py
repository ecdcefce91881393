"""pyOCD, with CMSIS-DAP probes, ST-Links and J-Links."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from harness.config.board import Strict, Word
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, J_LINK, ST_LINK
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool, ToolProgram


class PyOcdOptions(Strict, frozen=True):
    """``target`` as in ``pyocd list --targets``; ``frequency`` of SWD or JTAG, Hz; ``pack`` is the
    path of a CMSIS pack with the chip; ``connect`` is the mode for ``--connect``. ``address`` is
    the load address of a flat image.
    """

    target: Word
    frequency: int | None = None
    pack: str = ""
    connect: Word = ""
    address: int | None = None


class PyOcd(Tool[PyOcdOptions]):
    """Writes the pages that differ, reads all pages back, and resets.

    pyOCD accepts any part of a serial number, so it gets the whole. Without one it would ask on the
    terminal if several probes are connected, so a probe is always selected before.
    """

    name = "pyocd"
    programs = (ToolProgram("pyocd", "pip install 'etdump-harness[flash]'"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.BIN)
    options_type = PyOcdOptions
    selects_probe = True
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK)

    def resolve_paths(self, options: PyOcdOptions, folder: Path) -> PyOcdOptions:
        """Resolve the path of the pack."""
        return replace(options, pack=str(folder / options.pack)) if options.pack else options

    def commands(self, job: Job[PyOcdOptions]) -> tuple[FlashStep, ...]:
        """Return a load without a reset, a comparison of each piece, and a reset."""
        options = job.options
        common = ["--no-config", "--no-wait", "--target", options.target]
        if serial := job.probe_serial:
            common += ["--uid", serial]
        if options.frequency:
            common += ["--frequency", str(options.frequency)]
        if options.pack:
            common += ["--pack", options.pack]
        if options.connect:
            common += ["--connect", options.connect]
        image = job.image_as(*self.formats)
        where = (
            ["--base-address", hex(job.image.address)] if image.format is ImageFormat.BIN else []
        )
        load = ["load", *common, "--no-reset", "--format", image.format, *where, str(image.path)]
        steps = [FlashStep(WRITE, (job.program, *load), image.files)]
        if job.verify:
            steps.append(self._compare(job, common))
        return (*steps, FlashStep(RESET, (job.program, "reset", *common)))

    def _compare(self, job: Job[PyOcdOptions], common: list[str]) -> FlashStep:
        pieces = {
            job.work / f"piece-{segment.address:08x}.bin": segment.data
            for segment in job.image.segments
        }
        if unfit := set('"\\\n') & set(str(job.work)):
            raise UsageError(
                f"pyOCD's commander does not support the path {str(job.work)!r}",
                hint=f"set TMPDIR to a path without {' '.join(map(repr, sorted(unfit)))}",
            )
        argv = [job.program, "commander", *common]
        for segment, path in zip(job.image.segments, pieces, strict=True):
            argv += ["--command", f'compare {segment.address:#x} "{path}"']
        # pyocd exits with 0 even after a mismatch, so its output decides.
        proof = r"(?s)" + r"All \d+ bytes match.*" * len(pieces)
        return FlashStep(VERIFY, tuple(argv), pieces, proof, "Mismatched byte")
