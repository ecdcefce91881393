"""Custom command: flashes boards that no other tool supports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import UsageError, did_you_mean
from harness.files import resolve_word
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, ESP_JTAG, FTDI, J_LINK, ST_LINK
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool, ToolProgram

_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


class CommandOptions(Strict, frozen=True):
    """Commands as program and arguments, run without a shell.

    ``write`` is required, ``verify`` and ``reset`` are optional. Words may contain {image}, {port},
    {probe} (VID:PID:Serial), {serial} (the probe's), {address} (of the image) and {board}.
    ``formats`` are the accepted image formats, preferred first; ``address`` is the load address of
    a flat image; ``proof`` is a pattern that must match the output of ``write``.
    """

    write: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    verify: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    formats: Annotated[tuple[ImageFormat, ...], msgspec.Meta(min_length=1)] = (
        ImageFormat.ELF,
        ImageFormat.BIN,
    )
    address: int | None = None
    proof: str = ""


class CustomCommand(Tool[CommandOptions]):
    """Runs the commands from the board file; verifies only with a ``verify`` command."""

    name = "command"
    programs = ()
    formats: ClassVar = tuple(ImageFormat)
    options_type = CommandOptions
    version = None
    selects_probe = True
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK, *FTDI, *ESP_JTAG)

    def resolve_paths(self, options: CommandOptions, folder: Path) -> CommandOptions:
        """Resolve words such as ``./flash.sh``."""
        words = {name: getattr(options, name) for name in ("write", "verify", "reset")}
        return replace(
            options,
            **{name: tuple(resolve_word(w, folder) for w in argv) for name, argv in words.items()},
        )

    def commands(self, job: Job[CommandOptions]) -> tuple[FlashStep, ...]:
        """Return the commands with their placeholders replaced."""
        options = job.options
        image = job.image_as(*options.formats)

        def filled(argv: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                _PLACEHOLDER.sub(lambda match: _value(match[1], job, str(image.path)), word)
                for word in argv
            )

        steps = [FlashStep(WRITE, filled(options.write), image.files, options.proof)]
        if job.verify and options.verify:
            steps.append(FlashStep(VERIFY, filled(options.verify)))
        if options.reset:
            steps.append(FlashStep(RESET, filled(options.reset)))
        return tuple(steps)

    def named_programs(self, options: CommandOptions) -> tuple[ToolProgram, ...]:
        """Return the first words of the commands."""
        lines = (options.write, options.verify, options.reset)
        return tuple(
            ToolProgram(argv[0], f"no program {argv[0]}, which [flash.options.command] names")
            for argv in lines
            if argv and not _PLACEHOLDER.search(argv[0])
        )

    def reads_back(self, options: CommandOptions) -> bool:
        """Whether there is a ``verify`` command."""
        return bool(options.verify)


def _value(name: str, job: Job[CommandOptions], image: str) -> str:
    match name:
        case "image":
            return image
        case "port":
            return job.needed_port()
        case "address":
            return hex(job.image.address)
        case "board":
            return job.board
        case "probe" | "serial":
            if job.probe is None:
                raise UsageError(
                    f"the flash command of board {job.board} contains {{{name}}}, and no probe is "
                    "connected or given",
                    hint="use --probe VID:PID:Serial",
                )
            return job.probe.selector if name == "probe" else job.probe_serial
    known = ("image", "port", "probe", "serial", "address", "board")
    raise UsageError(
        f"the flash command of board {job.board} has an unknown placeholder {{{name}}}",
        hint=f"{did_you_mean(name, known)}known: {', '.join(f'{{{word}}}' for word in known)}",
    )
