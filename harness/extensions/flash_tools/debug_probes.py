"""Tools for debug probes: OpenOCD, pyOCD, probe-rs, J-Link Commander, st-flash and west."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from harness.config.board import Strict, Word
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.tool import (
    CMSIS_DAP,
    ESP_JTAG,
    FTDI,
    J_LINK,
    RESET,
    ST_LINK,
    VERIFY,
    WRITE,
    FlashStep,
    FlatImageOptions,
    Job,
    Tool,
    ToolProgram,
    option,
)


class OpenOcdOptions(FlatImageOptions, frozen=True):
    """``config`` are scripts for adapter and chip, or for the board; ``before`` are commands after
    these, such as ``transport select swd``.
    """

    config: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


class OpenOcd(Tool[OpenOcdOptions]):
    """OpenOCD 0.12 and newer: writes, compares and resets with its command ``program``."""

    name = "openocd"
    programs = (ToolProgram("openocd", "apt-get install openocd"),)
    formats = (ImageFormat.ELF, ImageFormat.HEX)
    probes = (*ST_LINK, *J_LINK, *CMSIS_DAP, *FTDI, *ESP_JTAG)

    def resolve_paths(self, options: OpenOcdOptions, folder: Path) -> OpenOcdOptions:
        """Resolve scripts beside the board file; OpenOCD finds all others in its search path."""
        config = ((folder / script, script) for script in options.config)
        resolved = tuple(str(path) if path.is_file() else script for path, script in config)
        return replace(options, config=resolved)

    def commands(self, job: Job[OpenOcdOptions]) -> tuple[FlashStep, ...]:
        """Return one call; the serial number comes before the command that opens the adapter."""
        if not job.options.config:
            raise UsageError(
                f"no OpenOCD configuration for board {job.board}",
                hint='set `config = ["interface/...cfg", "target/...cfg"]` in '
                "[flash.options.openocd] of the board file",
            )
        image = job.image_as(*self.formats)
        commands = [*job.options.before]
        if serial := job.probe_serial:
            commands.append(f"adapter serial {_quoted(serial)}")
        verify = " verify" if job.verify else ""
        commands.append(f"program {_quoted(str(image.path))}{verify} reset exit")
        argv = [job.program]
        for flag, words in (("-f", job.options.config), ("-c", commands)):
            argv += [text for word in words for text in (flag, word)]
        proof = r"\*\* Verified OK \*\*" if job.verify else r"\*\* Programming Finished \*\*"
        denial = r"\*\* (Verify|Programming) Failed \*\*"
        return (FlashStep(job.stages, tuple(argv), image.files, proof, denial),)


class PyOcdOptions(FlatImageOptions, frozen=True):
    """``target`` as in ``pyocd list --targets``; ``frequency`` of SWD or JTAG, Hz; ``pack`` is the
    path of a CMSIS pack with the chip; ``connect`` is the mode for ``--connect``.
    """

    target: Word
    frequency: int | None = None
    pack: str = ""
    connect: Word = ""


class PyOcd(Tool[PyOcdOptions]):
    """pyOCD: writes the pages that differ, reads all pages back, and resets.

    It accepts any part of a serial number, so it gets the whole. Without one it would ask on the
    terminal if several probes are connected, so a probe is always selected before.
    """

    name = "pyocd"
    programs = (ToolProgram("pyocd", "pip install 'etdump-harness[flash]'"),)
    formats = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.BIN)
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK)

    def resolve_paths(self, options: PyOcdOptions, folder: Path) -> PyOcdOptions:
        """Resolve the path of the pack."""
        return replace(options, pack=str(folder / options.pack)) if options.pack else options

    def commands(self, job: Job[PyOcdOptions]) -> tuple[FlashStep, ...]:
        """Return a load without a reset, a comparison of each piece, and a reset."""
        options = job.options
        common = ["--no-config", "--no-wait", "--target", options.target]
        common += option("--uid", job.probe_serial)
        common += option("--frequency", options.frequency)
        common += [*option("--pack", options.pack), *option("--connect", options.connect)]
        image = job.image_as(*self.formats)
        load = ["--no-reset", "--format", image.format, *job.base(image, "--base-address")]
        argv = (job.program, "load", *common, *load, str(image.path))
        steps = [FlashStep(WRITE, argv, image.files)]
        if job.verify:
            steps.append(self._compare(job, common))
        return (*steps, FlashStep(RESET, (job.program, "reset", *common)))

    def _compare(self, job: Job[PyOcdOptions], common: list[str]) -> FlashStep:
        if unfit := set('"\\\n') & set(str(job.work)):
            raise UsageError(
                f"pyOCD's commander does not support the path {str(job.work)!r}",
                hint=f"set TMPDIR to a path without {' '.join(map(repr, sorted(unfit)))}",
            )
        argv = [job.program, "commander", *common]
        pieces = job.pieces()
        for segment, path in zip(job.image.segments, pieces, strict=True):
            argv += ["--command", f'compare {segment.address:#x} "{path}"']
        # pyocd exits with 0 even after a mismatch, so its output decides.
        proof = r"(?s)" + r"All \d+ bytes match.*" * len(pieces)
        return FlashStep(VERIFY, tuple(argv), pieces, proof, "Mismatched byte")


class ProbeRsOptions(FlatImageOptions, frozen=True):
    """``chip`` as in ``probe-rs chip list``; ``protocol`` swd or jtag; ``speed`` in kHz;
    ``under_reset``: connect under reset.
    """

    chip: Word
    protocol: Word = ""
    speed: int | None = None
    under_reset: bool = False


class ProbeRs(Tool[ProbeRsOptions]):
    """probe-rs. Its probe selectors are ours, VID:PID:Serial."""

    name = "probe-rs"
    programs = (ToolProgram("probe-rs", "see https://probe.rs/docs/getting-started/installation"),)
    formats = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.UF2, ImageFormat.BIN)
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK, *FTDI, *ESP_JTAG)

    def commands(self, job: Job[ProbeRsOptions]) -> tuple[FlashStep, ...]:
        """Return a download, with verification by probe-rs, and a reset."""
        options = job.options
        common = ["--non-interactive", "--chip", options.chip]
        common += option("--probe", job.probe and job.probe.selector)
        common += [*option("--protocol", options.protocol), *option("--speed", options.speed)]
        if options.under_reset:
            common += ["--connect-under-reset"]
        image = job.image_as(*self.formats)
        download = ["--disable-progressbars", *(("--verify",) if job.verify else ())]
        download += ["--binary-format", image.format, *job.base(image, "--base-address")]
        argv = (job.program, "download", *common, *download, str(image.path))
        stage = "write, verify" if job.verify else WRITE
        reset = FlashStep(RESET, (job.program, "reset", *common))
        return (FlashStep(stage, argv, image.files), reset)


class JLinkOptions(FlatImageOptions, frozen=True):
    """``device`` is SEGGER's name of the chip; ``interface`` SWD or JTAG; ``speed`` in kHz."""

    device: Word
    interface: Word = "SWD"
    speed: int = 4000


class JLink(Tool[JLinkOptions]):
    """SEGGER's J-Link Commander with a script.

    It can exit with 0 after a failure, so its output has to prove success.
    """

    name = "jlink"
    programs = (ToolProgram("JLinkExe", "see https://www.segger.com/downloads/jlink", ("JLink",)),)
    formats = (ImageFormat.HEX, ImageFormat.BIN)
    version = None
    probes = J_LINK

    def commands(self, job: Job[JLinkOptions]) -> tuple[FlashStep, ...]:
        """Return one call with a script: reset, write, compare every piece, run."""
        options = job.options
        image = job.image_as(*self.formats)
        pieces = job.pieces() if job.verify else {}
        where = "".join(job.base(image, ", "))
        script = ["r", "h", f"loadfile {_plain(str(image.path))}{where}"]
        for segment, path in zip(job.image.segments, pieces, strict=False):
            script.append(f"verifybin {_plain(str(path))}, {segment.address:#x}")
        path = job.work / "load.jlink"
        lines = "\n".join([*script, "r", "g", "qc", ""])
        files = {**image.files, **pieces, path: lines.encode()}
        argv = [job.program, "-NoGui", "1", "-ExitOnError", "1", "-AutoConnect", "1"]
        argv += ["-Device", options.device, "-If", options.interface]
        argv += ["-Speed", str(options.speed)]
        if serial := job.probe_serial:
            # J-Link serial numbers are decimal; on USB they are padded with zeros.
            argv += ["-USB", serial.lstrip("0") or "0"]
        argv += ["-CommandFile", str(path)]
        proof = r"(?s)Downloading file.*O\.K\..*" + r"Verify successful\..*" * len(pieces)
        denial = (
            r"(?i)Verify failed|\*{2,} ?Error|Error while programming|Failed to (download|open)|"
            r"Cannot connect|Could not (connect|open|find)|Unknown command|Unspecified error"
        )
        return (FlashStep(job.stages, tuple(argv), files, proof, denial),)


class StFlashOptions(FlatImageOptions, frozen=True):
    """``under_reset``: connect while reset is held; ``frequency`` in kHz."""

    under_reset: bool = False
    frequency: int | None = None


class StFlash(Tool[StFlashOptions]):
    """st-flash of the stlink tools, with an ST-Link; it always verifies and reports it."""

    name = "st-flash"
    programs = (ToolProgram("st-flash", "apt-get install stlink-tools"),)
    formats = (ImageFormat.HEX, ImageFormat.BIN)
    probes = ST_LINK

    def commands(self, job: Job[StFlashOptions]) -> tuple[FlashStep, ...]:
        """Return one call."""
        image = job.image_as(*self.formats)
        argv = [job.program, "--reset"]
        if job.options.under_reset:
            argv.append("--connect-under-reset")
        if job.options.frequency:
            argv.append(f"--freq={job.options.frequency}")
        argv += option("--serial", job.probe_serial)
        if image.format is ImageFormat.HEX:
            argv += ["--format", "ihex"]
        argv += ["write", str(image.path), *job.base(image)]
        stage = "write, verify, reset"
        return (FlashStep(stage, tuple(argv), image.files, r"written and verified"),)


class WestOptions(Strict, frozen=True):
    """``build_dir`` is the firmware's build directory; ``runner`` is one of its runners;
    ``arguments`` are additional arguments for the runner.
    """

    build_dir: str
    runner: Word = ""
    arguments: tuple[str, ...] = ()


class West(Tool[WestOptions]):
    """The runners of a Zephyr workspace, for firmware built in it.

    Flashes without verification, because not every runner verifies.
    """

    name = "west"
    programs = (ToolProgram("west", "pip install west"),)
    formats = (ImageFormat.ELF, ImageFormat.HEX, ImageFormat.BIN)
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
        argv += option("--runner", options.runner)
        argv += [f"--{image.format}-file", str(image.path), *option("--dev-id", job.probe_serial)]
        return (FlashStep("write, reset", (*argv, *options.arguments), image.files),)


def _quoted(text: str) -> str:
    """Return a braced word of Tcl, without substitutions.

    Raises:
        UsageError: The text contains braces or backslashes.
    """
    if set(text) & set("{}\\") or not text.isprintable():
        raise UsageError(f"OpenOCD does not support {text!r}", hint="use a path without { } and \\")
    return f"{{{text}}}"


def _plain(path: str) -> str:
    if "," in path or '"' in path or not path.isprintable():
        raise UsageError(
            f"J-Link Commander does not support the path {path!r}",
            hint="use a path without commas, quotes and control characters",
        )
    return f'"{path}"' if " " in path else path
