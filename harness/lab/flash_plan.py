"""What a flashing would do: which image, tool and probe; known before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.board import Board, NativeTarget, QemuTarget, SerialTarget, load_board
from harness.config.unit import Unit, UsbPort
from harness.errors import PortError, UsageError
from harness.files import absolute
from harness.flash.image import Image, read_image
from harness.flash.probes import connected
from harness.flash.selection import Choice, choose_tool, flash_of
from harness.flash.tool import FlashStep, Job
from harness.records.flash_record import FlashPlan, PlannedStep
from harness.target.build import build_firmware
from harness.target.ports import describe, device_of

Stages = Callable[[str, int, int], None]
"""Called with (stage, done, total) as a flashing goes on; total 0 means unknown."""


@dataclass(frozen=True, slots=True)
class HowToFlash:
    """What to flash, and with what.

    Attributes:
        image: The image; None for one that is built here.
        tool: The tool; None for the board file's first that is here.
        probe: Which probe, VID:PID:Serial; "" if there is only one.
        attempts: How often to try when infrastructure fails.
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
        output: Directory for the log, ``flash.json`` and files made for the tool.
        how: What to flash, and with what.
        port: The board's serial port.
        unit: What the board is called; "" for its port or type.
        identity: Ask the board for its build id afterwards.
        if_needed: Ask before, too, and leave it at that when it is right.
        leased: The unit of the lab that it is, which is held meanwhile; None for none.
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
    """What would be done.

    Attributes:
        board: The board type.
        choice: The tool, and why.
        image: What is written.
        build_id: What the board is to report then; None if the image does not say.
        job: What the tool is told.
        timeout_s: How long the tool may take, seconds.
    """

    board: Board
    choice: Choice
    image: Image
    build_id: str | None
    job: Job[Any]
    timeout_s: float

    def steps(self) -> tuple[FlashStep, ...]:
        """The commands."""
        return self.choice.tool.commands(self.job)

    def document(self) -> FlashPlan:
        """The same as JSON."""
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
    """Find out what would be done, and do nothing but build the firmware if there is no image.

    Args:
        request: What to flash.
        dry: Only to show it: neither tool nor probe need to be here.
        stages: Told what goes on.

    Raises:
        UsageError: The request, the board file or the image is wrong.
        InfrastructureError: The probe that was asked for is not connected.
    """
    board, file = load_board(request.board)
    if isinstance(board.target, NativeTarget):
        raise UsageError(f"board {board.name} is a process of this host: it has nothing to flash")
    flash = flash_of(board, file)
    path = request.how.image
    if path is None:
        stages("building the firmware", 0, 0)
        path = build_firmware(board).image
    # Tools are started elsewhere, where a relative path would mean another file.
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
            f"{path} does not say its build id, so nobody could tell whether the board runs it",
            hint="is it a firmware with this project's server? With --no-identity it is flashed "
            "without that question",
        )
    tool = choice.tool
    if isinstance(board.target, SerialTarget) and request.port is None and request.identity:
        raise UsageError(
            f"board {board.name} is on a serial port, and none was named, so nobody could ask it "
            "what it runs",
            hint="give --unit, or --port such as /dev/ttyACM0, or --no-identity",
        )
    program = tool.programs[0] if tool.programs else None
    job = Job(
        board=board.name,
        image=image,
        work=(request.output / "flash_files").absolute(),
        options=choice.options,
        verify=flash.verify and tool.reads_back(choice.options),
        probe=choice.probe,
        port=_port_now(request.port, needed=tool.needs_port and not dry),
        server="GDBSERVER" if isinstance(board.target, QemuTarget) else None,
        program=(program.find() or program.name) if program else "",
    )
    return FlashSteps(board, choice, image, build_id, job, flash.timeout_s)


def _port_now(port: UsbPort | str | None, *, needed: bool) -> str | None:
    """The device that a port is at the moment; what it is found by, if it may still be missing: a
    board may have its port only with the firmware that it is about to get.

    Raises:
        PortError: It is not there, and the tool works over it.
    """
    try:
        return device_of(port) if port else None
    except PortError:
        if needed:
            raise
        return describe(port) if port else None
