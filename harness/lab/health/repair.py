"""Makes a unit well, step by step, as far as that can be done from here."""

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
from harness.lab.health.examination import examine
from harness.lab.leases import hold_if
from harness.lab.power import switch
from harness.link.session import Session
from harness.link.wire import Reset
from harness.records.health import Healing, Health, Step
from harness.target import start_target

_log = logging.getLogger(__name__)


def heal(
    unit: Unit,
    health: Health,
    examine_: Callable[[Unit], Health] = examine,
    image: Path | None = None,
) -> Health:
    """Take steps until a unit is well, the mildest first.

    Its port is opened anew; other firmware is replaced; a board that answers is told to restart;
    its power is taken away and given back, where its file says how. After each it is examined
    again. What its file says wrong, none of them heals.

    Args:
        unit: Which.
        health: How it is.
        examine_: Examines it again.
        image: The firmware that it should have; None to flash nothing.

    Returns:
        How it is then, with all steps that were taken.

    Raises:
        BusyError: Somebody else holds it.
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
                said = act()
            except HarnessError as error:
                said = error.message
            _log.info("%s: %s: %s", unit.id, step, said)
            health = examine_(unit)
            took = round(time.monotonic() - began, 3)
            healing.append(Healing(step, said, health.healthy, took))
    return replace(health, healing=tuple(healing))


def _steps(
    unit: Unit, health: Health, image: Path | None
) -> Iterator[tuple[Step, Callable[[], str]]]:
    yield "open again", lambda: "its port was closed and opened"
    if health.owner is Owner.FLASH and image is not None:
        # It runs what it was not given: neither a reset nor its power changes that.
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
    return f"{record.image} was flashed with {record.tool}"


def _reset(unit: Unit) -> str:
    """Have the firmware restart, and see it come back; one that is started here does anyway."""
    board = load_board(unit.board)[0]
    if unit.port is None:
        return "its firmware is started anew each time"
    with start_target(board, None, port=unit.port) as target:
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        session.hello(board.deadlines.boot_s)
        session.reset(Reset.REBOOT)
        session.hello(board.deadlines.boot_s)
    return "it was told to restart, and answers again"
