"""A command of one's own: whatever flashes a board that no other tool knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import UsageError, did_you_mean
from harness.files import placed_word
from harness.flash import usb
from harness.flash.image import ImageFormat
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool

_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


class CommandOptions(Strict, frozen=True):
    """Programs with their arguments; these run without a shell.

    ``write``, and if they are given ``verify`` and ``reset``; each may hold {image}, {port},
    {probe} (VID:PID:Serial), {serial} (the probe's), {address} (of the image) and {board}.
    ``formats`` are images that it takes, best first; ``address`` is where a flat one belongs;
    ``proof`` is a pattern that the output of ``write`` has to hold.
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
    """It verifies if it is told how."""

    name = "command"
    programs = ()
    formats: ClassVar = tuple(ImageFormat)
    options_type = CommandOptions
    version = None
    selects_probe = True
    probes = (*usb.CMSIS_DAP, *usb.ST_LINK, *usb.J_LINK, *usb.FTDI, *usb.ESP_JTAG)

    def placed(self, options: CommandOptions, folder: Path) -> CommandOptions:
        """With words such as ``./flash.sh``."""
        words = {name: getattr(options, name) for name in ("write", "verify", "reset")}
        return replace(
            options,
            **{name: tuple(placed_word(w, folder) for w in argv) for name, argv in words.items()},
        )

    def commands(self, job: Job[CommandOptions]) -> tuple[FlashStep, ...]:
        """What was said, filled in."""
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

    def reads_back(self, options: CommandOptions) -> bool:
        """If it is told how."""
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
                    f"the command that flashes board {job.board} has {{{name}}}, and no probe is "
                    "connected or was named",
                    hint="give --probe VID:PID:Serial",
                )
            return job.probe.selector if name == "probe" else job.probe.serial
    known = ("image", "port", "probe", "serial", "address", "board")
    raise UsageError(
        f"the command that flashes board {job.board} has an unknown placeholder {{{name}}}",
        hint=f"{did_you_mean(name, known)}known: {', '.join(f'{{{word}}}' for word in known)}",
    )
