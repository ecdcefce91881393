"""Repairs a unit step by step: reopen its port, flash it, reset it, power-cycle it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from harness.config.board import load_board
from harness.config.unit import Unit
from harness.errors import HarnessError, Owner
from harness.lab.flash_plan import FlashRequest, HowToFlash
from harness.lab.flashing import flash_board
from harness.lab.health import examine
from harness.lab.power import switch
from harness.lab.units import hold_if
from harness.link.session import Session
from harness.link.wire import Reset
from harness.records.lab import Healing, Health, Step
from harness.target.start import start_target

_log = logging.getLogger(__name__)


def heal(
    unit: Unit,
    health: Health,
    examine_: Callable[[Unit], Health] = examine,
    image: Path | None = None,
) -> Health:
    """Take repair steps until a unit is healthy, the mildest first.

    The steps: reopen the port; flash the image if the board runs other firmware; reset a board that
    answers; power-cycle a unit whose file describes its power. The unit is examined after each.
    No step repairs a wrong entry in ``units.toml``.

    Args:
        unit: The unit.
        health: Its current health.
        examine_: Examines it again.
        image: The firmware that it should run; None to skip flashing.

    Returns:
        The health after the last step, with all steps taken.

    Raises:
        BusyError: The unit is in use by somebody else.
    """
    healing: list[Healing] = []
    unit_s = load_board(unit.board)[0].deadlines.unit_s
    with hold_if(unit, reason="health", timeout_s=unit_s) as found:
        unit = found or unit
        for step, act in _steps(unit, health, image):
            if health.healthy or health.owner is Owner.TEST:
                break
            began = time.monotonic()
            try:
                outcome = act()
            except HarnessError as error:
                outcome = error.message
            _log.info("%s: %s: %s", unit.id, step, outcome)
            health = examine_(unit)
            took = round(time.monotonic() - began, 3)
            healing.append(Healing(step, outcome, health.healthy, took))
    return replace(health, healing=tuple(healing))


def _steps(
    unit: Unit, health: Health, image: Path | None
) -> Iterator[tuple[Step, Callable[[], str]]]:
    yield "open again", lambda: "port closed and reopened"
    if health.owner is Owner.FLASH and image is not None:
        # The board runs other firmware: neither a reset nor a power cycle changes that.
        yield "flash", lambda: _flash(unit, image)
    if any(each.part == "answer" and each.state == "ok" for each in health.findings):
        yield "reset", lambda: _reset(unit)
    if unit.power is not None:
        yield "power cycle", lambda: "; ".join(switch(unit, "cycle").steps)


def _flash(unit: Unit, image: Path) -> str:
    how = HowToFlash(image, probe=unit.probe)
    with TemporaryDirectory() as output:
        record = flash_board(
            FlashRequest(unit.board, Path(output), how, port=unit.port, unit=unit.id, leased=unit)
        )
    return f"{record.image} flashed with {record.tool}"


def _reset(unit: Unit) -> str:
    """Reset the board and wait for HELLO; a simulated board restarts with every command."""
    board = load_board(unit.board)[0]
    if unit.port is None:
        return "simulated board: restarts with every command"
    with start_target(board, None, port=unit.port) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        session.hello(board.deadlines.boot_s)
        session.reset(Reset.REBOOT)
        session.hello(board.deadlines.boot_s)
    return "board reset, and answers again"
