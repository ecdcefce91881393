"""Examines a unit part by part, and attributes what it finds to an owner.

| found | owner |
|---|---|
| no such device on USB, or its name is gone from ``/dev`` | board, its cable or its supply |
| several devices match ``units.toml`` | test: the file has to say more |
| the port exists, and another program has it, or we may not open it | host |
| the server of a port does not answer, or hangs up | link |
| the port opens, and nothing arrives | board |
| text arrives, and never a frame | flash: other firmware is on it |
| something else arrives | link: noise, or another rate |
| it is another board than it should be, or has another clock | board |
| it runs other firmware | flash |
| it crashed or died while it was asked | product |
| it keeps a postmortem (a warning) | product |
| the line loses frames, or the board's UART loses bytes | link |

A silent board is asked again after a power cycle where that is possible (``repair``); if it answers
then, the program that ran on it had hung.
"""

from __future__ import annotations

import errno
import string
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from harness.capped import CappedBuffer
from harness.config.board import Board, SerialTarget, load_board
from harness.config.unit import Unit, UsbPort
from harness.errors import (
    FormatError,
    HarnessError,
    LinkError,
    Owner,
    PortError,
    TransportClosedError,
    UsageError,
)
from harness.flash.image import read_image
from harness.formatting import printable
from harness.lab.health.line_test import GOOD_LOSS, WORST_LOSS, best_rate, measure, measure_rates
from harness.lab.leases import hold_if
from harness.lab.postmortem import fetch
from harness.lab.target_identity import refuse_other_target
from harness.link.answers import TargetInfo
from harness.link.session import Session
from harness.link.statistics import LinkStatistics
from harness.records.health import Health, HealthFinding, Part, RateQuality
from harness.target import Target, start_target
from harness.target.build import Firmware, build_firmware
from harness.target.ports import describe, list_ports

_LOSS_CODE = 75


def examine(
    unit: Unit, *, goodput: bool = False, rates: bool = False, image: Path | None = None
) -> Health:
    """Examine a unit, and hold it meanwhile; that somebody else does is a finding, too.

    Nothing on the board is changed, unless its line is to be measured: a model and a trace that it
    had are lost then, while what it keeps of a crash is not.

    Args:
        unit: Which.
        goodput: Bring a model up and a trace down, at the rate that a run would use.
        rates: The same at all rates that the board offers.
        image: The firmware that it should run, by the build id that stands in it; None for any, or
            for what is built where the board is started here.

    Raises:
        UsageError: Its board is none, or the image is none or says no build id.
    """
    build_id = read_image(image).build_id() if image is not None else None
    if image is not None and build_id is None:
        raise UsageError(f"{image} does not say its build id, so no board can be held against it")
    examination = _Examination(unit, load_board(unit.board)[0], goodput=goodput, rates=rates)
    return examination.health(build_id)


class _Examination:
    """What is known of a unit so far."""

    def __init__(self, unit: Unit, board: Board, *, goodput: bool, rates: bool) -> None:
        self._unit, self._board = unit, board
        self._goodput, self._all_rates = goodput, rates
        self._findings: list[HealthFinding] = []
        self._rates: list[RateQuality] = []
        self._console = CappedBuffer()
        self._part: Part = "port"
        self._owner: Callable[[HarnessError], Owner] = lambda error: error.owner
        self._began = time.monotonic()
        self._exit_code = 0

    def health(self, build_id: str | None) -> Health:
        """Ask all there is to ask; the firmware should be of that build, if one is given."""
        try:
            unit_s = self._board.deadlines.unit_s
            with hold_if(self._unit, reason="health", timeout_s=unit_s) as found:
                # With the port that a coordinator says it has, where one is asked.
                self._unit = found or self._unit
                firmware = self._firmware()
                with self._opened(firmware) as target:
                    self._ask(target, build_id or (firmware.build_id if firmware else None))
        except HarnessError as error:
            self._exit_code = error.exit_code
            self._found("fail", error.message, self._owner(error), error.hint)
        port = self._unit.port
        failures = (each for each in self._findings if each.state == "fail")
        return Health(
            unit=self._unit.id,
            board=self._board.name,
            port=None if port is None else describe(port),
            healthy=self._exit_code == 0,
            exit_code=self._exit_code,
            owner=next((each.owner for each in failures), None),
            findings=tuple(self._findings),
            rates=tuple(self._rates),
            advised_baud=best_rate(self._rates),
        )

    def _begin(self, part: Part, owner: Callable[[HarnessError], Owner] | None = None) -> None:
        self._part = part
        self._owner = owner or (lambda error: error.owner)
        self._began = time.monotonic()

    def _found(
        self,
        state: Literal["ok", "warn", "fail"],
        said: str,
        owner: Owner | None = None,
        hint: str = "",
    ) -> None:
        took = round(time.monotonic() - self._began, 3)
        # Boards and their ports may say anything.
        texts = printable(said), printable(hint)
        self._findings.append(HealthFinding(self._part, state, texts[0], took, owner, texts[1]))

    def _firmware(self) -> Firmware | None:
        """Build what is to be started here."""
        if isinstance(self._board.target, SerialTarget):
            return None
        self._begin("firmware")
        firmware = build_firmware(self._board)
        self._found("ok", f"builds: {firmware.image}")
        return firmware

    @contextmanager
    def _opened(self, firmware: Firmware | None) -> Iterator[Target]:
        port = self._unit.port
        self._begin("port", lambda error: owner_of_port(error, port))
        with start_target(self._board, firmware, port=port) as target:
            self._found("ok", f"opens: {target.description}")
            yield target

    def _ask(self, target: Target, build_id: str | None) -> None:
        if self._unit.health == "none":
            self._begin("answer")
            self._found("ok", "not asked, as its file says")
            return
        deadlines = self._board.deadlines
        session = Session(
            target.transport,
            deadline_s=deadlines.request_s,
            console=self._console.extend,
            check_alive=target.check_alive,
        )
        self._begin(
            "answer",
            lambda error: owner_of_silence(error, session.statistics, self._console.kept),
        )
        info = session.hello(deadlines.boot_s)
        self._found("ok", f"answers after {time.monotonic() - self._began:.2f} s")
        self._begin("identity")
        refuse_other_target(info, self._board, build_id)
        clock = info.clocks[0]
        self._found(
            "ok",
            f"{info.board} on {info.cpu}, firmware {info.build_id}, a clock of {clock.hz} Hz and "
            f"{clock.bits} bits",
        )
        self._look_for_crash(session)
        self._measure(session, info)

    def _look_for_crash(self, session: Session) -> None:
        """See whether it keeps a postmortem, and leave it there."""
        self._begin("crash")
        try:
            kept = fetch(session)
        except FormatError as error:
            said = f"it keeps something of a crash that cannot be read: {error.message}"
            self._found("warn", said, Owner.PRODUCT)
            return
        if kept is None:
            self._found("ok", "it keeps nothing of a crash")
            return
        self._found(
            "warn",
            f"it has crashed before: {kept.document.message}",
            Owner.PRODUCT,
            "`etharness postmortem` says more, and --clear makes it forget",
        )

    def _measure(self, session: Session, info: TargetInfo) -> None:
        """Measure the line: at all rates, or at the one that a run would take."""
        self._begin("line")
        deadlines, target = self._board.deadlines, self._board.target
        listed = target.bauds if isinstance(target, SerialTarget) else ()
        first = session.raise_baud(())
        if self._all_rates and first:
            bauds = sorted({first, *info.bauds})
            times = (deadlines.boot_s, deadlines.execute_s)
            self._rates += measure_rates(session, info, bauds, *times)
        else:
            baud = session.raise_baud(self._unit.rates(listed))
            quality = measure(session, info, baud, deadlines.execute_s, goodput=self._goodput)
            self._rates.append(quality)
            session.restore_baud()
        self._judge_line()

    def _judge_line(self) -> None:
        """Judge the line by the best rate that was measured: one is enough."""
        best = min(self._rates, key=lambda rate: (not rate.heard, rate.loss, rate.overruns))
        said = f"{best.loss:.2%} of {best.frames} frames were lost or damaged"
        said += f" at {best.baud} baud" if best.baud else ""
        if best.overruns:
            said += f", and the board's UART lost bytes {best.overruns} times"
        unheard = [str(rate.baud) for rate in self._rates if not rate.heard]
        if unheard:
            said += f"; nothing is heard at {', '.join(unheard)} baud"
        hint = "look at cable, adapter and ground; --rates tries slower rates"
        if best.loss > WORST_LOSS:
            self._exit_code = _LOSS_CODE
            self._found("fail", said, Owner.LINK, hint)
        elif best.loss > GOOD_LOSS or best.overruns or unheard:
            self._found("warn", said, Owner.LINK, hint)
        else:
            self._found("ok", said)


_OURS_TO_USE: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EAGAIN)


_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


_PRINTABLE: Final = string.printable.encode()


_TEXT_SHARE: Final = 0.9
"""Of what comes: noise is text by a third, and what a program prints is, but for some colours."""


def owner_of_port(error: HarnessError, port: UsbPort | str | None) -> Owner:
    """Whose it is that a port could not be opened."""
    if not isinstance(error, PortError):
        return error.owner
    if isinstance(port, UsbPort):
        matching = sum(each.matches(port) for each in list_ports())
        if matching != 1:
            return Owner.TEST if matching else Owner.BOARD
    number = getattr(error.__cause__, "errno", None)
    if number in _OURS_TO_USE:
        return Owner.HOST
    # A server that is not there is no device that is gone.
    local = not isinstance(port, str) or "://" not in port
    return Owner.BOARD if local and number in _GONE else error.owner


def owner_of_silence(error: HarnessError, heard: LinkStatistics, console: bytes) -> Owner:
    """Whose it is that nobody answered as the firmware does."""
    if not isinstance(error, LinkError) or isinstance(error, TransportClosedError):
        return error.owner
    if not heard.bytes_received:
        return Owner.BOARD
    if heard.frames_received or heard.corrupt.total() or not console:
        return Owner.LINK
    text = len(console) - len(console.translate(None, _PRINTABLE))
    return Owner.FLASH if text >= _TEXT_SHARE * len(console) else Owner.LINK
