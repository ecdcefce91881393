"""west: the runners of a Zephyr workspace, for firmware built in it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from harness.config.board import Strict, Word
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, J_LINK, ST_LINK
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class WestOptions(Strict, frozen=True):
    """``build_dir`` is the firmware's build directory; ``runner`` is one of its runners;
    ``arguments`` are additional arguments for the runner.
    """

    build_dir: str
    runner: Word = ""
    arguments: tuple[str, ...] = ()


class West(Tool[WestOptions]):
    """Flashes without verification, because not every runner verifies."""

    name = "west"
    programs = (ToolProgram("west", "pip install west"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.BIN)
    options_type = WestOptions
    selects_probe = True
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK)
    verifies = False

    def resolve_paths(self, options: WestOptions, folder: Path) -> WestOptions:
        """Resolve the build directory."""
        return replace(options, build_dir=str(folder / options.build_dir))

    def commands(self, job: Job[WestOptions]) -> tuple[FlashStep, ...]:
        """Return one call with the given image; ``--skip-rebuild`` keeps west from building."""
        options = job.options
        image = job.image_as(*self.formats)
        argv = [job.program, "flash", "--skip-rebuild", "--build-dir", options.build_dir]
        if options.runner:
            argv += ["--runner", options.runner]
        argv += [f"--{image.format}-file", str(image.path)]
        if serial := job.probe_serial:
            argv += ["--dev-id", serial]
        return (FlashStep("write, reset", (*argv, *options.arguments), image.files),)
