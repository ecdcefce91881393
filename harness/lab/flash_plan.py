"""Plans a flash operation: image, tool, probe and commands, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.board import (
    Board,
    NativeTarget,
    QemuTarget,
    SerialTarget,
    board_names,
    load_board,
)
from harness.config.unit import Unit, UsbPort
from harness.errors import PortError, UsageError
from harness.files import absolute
from harness.flash.image import Image, read_image
from harness.flash.probes import connected
from harness.flash.tool import FlashStep, Job
from harness.flash.tools import Choice, choose_tool, flash_of
from harness.records.lab import FlashPlan, PlannedStep
from harness.target.build import build_firmware
from harness.target.ports import describe, device_of

Stages = Callable[[str, int, int], None]
"""Called with (stage, done, total) to report progress; total 0 means unknown."""


@dataclass(frozen=True, slots=True)
class HowToFlash:
    """What to flash, and with which tool.

    Attributes:
        image: The image; None to build the board's firmware.
        tool: The tool; None for the first installed tool of the board file.
        probe: The debug probe, VID:PID:Serial; "" if only one is connected.
        attempts: Number of attempts when the infrastructure fails.
    """

    image: Path | None = None
    tool: str | None = None
    probe: str = ""
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class FlashRequest:
    """Which board to flash.

    Attributes:
        board: Board name or board file.
        output: Directory for the log, ``flash.json`` and files generated for the tool.
        how: What to flash, and with which tool.
        port: The board's serial port.
        unit: Name of the unit in the record; "" for its port or type.
        identity: Read the build id from the board afterwards, and compare it with the image's.
        if_needed: Read the build id before flashing, and skip flashing if it matches.
        leased: The unit of the lab to hold while flashing; None for a board outside the lab.
    """

    board: str
    output: Path
    how: HowToFlash = HowToFlash()
    port: UsbPort | str | None = None
    unit: str = ""
    identity: bool = True
    if_needed: bool = False
    leased: Unit | None = None


@dataclass(frozen=True, slots=True)
class FlashSteps:
    """A planned flash operation.

    Attributes:
        board: The board type.
        choice: The tool, and why it was chosen.
        image: The image to write.
        build_id: The build id that the board has to report afterwards; None if it is not checked.
        job: The parameters of the tool.
        timeout_s: Timeout of the tool, seconds.
    """

    board: Board
    choice: Choice
    image: Image
    build_id: str | None
    job: Job[Any]
    timeout_s: float

    def steps(self) -> tuple[FlashStep, ...]:
        """Return the commands to run."""
        return self.choice.tool.commands(self.job)

    def document(self) -> FlashPlan:
        """Return the plan as a JSON document."""
        choice, image = self.choice, self.image
        return FlashPlan(
            board=self.board.name,
            tool=choice.tool.name,
            why=choice.why,
            others=choice.others,
            probe=choice.probe.selector if choice.probe else "",
            image=str(image.path),
            image_format=str(image.format),
            image_bytes=image.nbytes,
            build_id=self.build_id,
            steps=tuple(
                PlannedStep(
                    step.stage,
                    step.argv,
                    {str(path): len(content) for path, content in step.files.items()},
                )
                for step in self.steps()
            ),
        )


def plan(
    request: FlashRequest, *, dry: bool = False, stages: Stages = lambda *_: None
) -> FlashSteps:
    """Plan a flash operation; build the firmware if the request names no image.

    Args:
        request: What to flash.
        dry: Only show the plan: tool and probe may be missing.
        stages: Called to report progress.

    Raises:
        UsageError: The request, the board file or the image is invalid.
        InfrastructureError: The requested probe is not connected.
    """
    board, file = load_board(request.board)
    if isinstance(board.target, NativeTarget):
        raise UsageError(f"board {board.name} runs as a process of this host and cannot be flashed")
    flash = flash_of(board, file)
    path = request.how.image
    if path is None:
        stages("building the firmware", 0, 0)
        path = build_firmware(board).image
    # Tools run in another directory, where a relative path would name another file.
    image = read_image(absolute(path))
    choice = choose_tool(
        board,
        file,
        named=request.how.tool,
        image_format=image.format,
        selector=request.how.probe,
        devices=connected(),
        dry=dry,
    )
    image = image.at(getattr(choice.options, "address", None))
    build_id = image.build_id() if request.identity else None
    if request.identity and build_id is None:
        raise UsageError(
            f"{path} has no build id, so the flashed firmware cannot be verified",
            hint="use firmware with this project's server, or skip the check with --no-identity",
        )
    if request.identity and not image.names(board.name):
        others = [name for name in board_names() if image.names(name)]
        what = " or ".join(others) or "another one"
        raise UsageError(
            f"{path} is not firmware of board {board.name}, but of {what}; nothing was written",
            hint="give the image of this board, or --no-identity for firmware that does not say "
            "its board",
        )
    work = (request.output / "flash_files").absolute()
    if work.is_symlink():
        raise UsageError(
            f"{work} is a symbolic link, and files for the tool are written in it",
            hint="remove the link, or name another directory with -o",
        )
    tool = choice.tool
    if isinstance(board.target, SerialTarget) and request.port is None and request.identity:
        raise UsageError(
            f"board {board.name} needs a serial port to verify the flashed firmware",
            hint="give --unit, or --port such as /dev/ttyACM0, or --no-identity",
        )
    program = tool.programs[0] if tool.programs else None
    job = Job(
        board=board.name,
        image=image,
        work=work,
        options=choice.options,
        verify=flash.verify and tool.reads_back(choice.options),
        probe=choice.probe,
        port=_port_now(request.port, needed=tool.needs_port and not dry),
        server="GDBSERVER" if isinstance(board.target, QemuTarget) else None,
        program=(program.find() or program.name) if program else "",
    )
    return FlashSteps(board, choice, image, build_id, job, flash.timeout_s)


def _port_now(port: UsbPort | str | None, *, needed: bool) -> str | None:
    """Return the current device of a port, or its description while it is missing.

    It may be missing unless the tool uses it: some boards get their port from the new firmware.

    Raises:
        PortError: The port is missing, and the tool needs it.
    """
    try:
        return device_of(port) if port else None
    except PortError:
        if needed:
            raise
        return describe(port) if port else None
