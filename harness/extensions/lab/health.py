"""Examines a unit part by part, attributes each failure to an owner, and repairs it step by step.

| finding | owner |
|---|---|
| device not on USB, or its name gone from ``/dev`` | board, its cable or its supply |
| several devices match ``units.toml`` | test: the entry is ambiguous |
| port in use by another program, or permission denied | host |
| server of the port does not answer, or hangs up | link |
| port opens, no bytes arrive | board |
| text arrives, but no frames | flash: other firmware |
| other bytes arrive | link: noise, or another baud rate |
| other board, or other clock | board |
| other firmware | flash |
| board crashed or stopped during the examination | product |
| board has a postmortem (a warning) | product |
| line loses frames, or the board's UART loses bytes | link |

A silent board is examined again after a power cycle if its power can be switched (``heal``); if it
answers then, its firmware had hung.
"""

from __future__ import annotations

import errno
import logging
import string
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

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
from harness.extensions.lab.power import switch
from harness.files import CappedBuffer
from harness.flash.flashing import flash_board
from harness.flash.image import read_image
from harness.flash.plan import HowToFlash
from harness.formatting import counted, printable
from harness.link.exchange import LinkStatistics
from harness.link.messages import TargetInfo
from harness.link.session import Session
from harness.link.wire import Reset
from harness.report.terminal import show_line, show_table
from harness.runs.device import postmortems
from harness.runs.line_quality import GOOD_LOSS, RateQuality, measure, measure_rates
from harness.target.build import Firmware, build_firmware
from harness.target.ports import list_ports, port_text
from harness.target.selection import Chosen, check_identity, hold_if
from harness.target.start import Target, greet, start_session, start_target, started

if TYPE_CHECKING:
    from rich.console import Console

Part = Literal["firmware", "port", "answer", "identity", "crash", "line"]
"""The checks of a unit, in order: its firmware builds, its port opens, the board answers, it is the
expected board, it has no crash record, its line transfers data without losses.
"""


Step = Literal["open again", "flash", "reset", "power cycle"]
"""Steps that can heal a unit."""


class HealthFinding(msgspec.Struct, frozen=True):
    """Result of one check; ``owner`` is the owner of a failure."""

    part: Part
    state: Literal["ok", "warn", "fail"]
    message: str
    duration_s: float
    owner: Owner | None = None
    hint: str = ""


class Healing(msgspec.Struct, frozen=True):
    """A step to heal a unit, and whether the unit was healthy after it."""

    step: Step
    outcome: str
    healthy: bool
    duration_s: float


class Health(msgspec.Struct, frozen=True):
    """Health of a unit, as printed by ``etharness lab health --json``.

    ``exit_code`` and ``owner`` are those of the failure, 0 and null without one. ``rates`` are the
    measured baud rates; ``advised_baud`` is the best of several, null if there was no choice or no
    good one. ``healing`` are the steps taken; the findings are from after the last one.
    """

    unit: str
    board: str
    port: str | None
    healthy: bool
    exit_code: int
    owner: Owner | None
    findings: tuple[HealthFinding, ...]
    rates: tuple[RateQuality, ...] = ()
    advised_baud: int | None = None
    healing: tuple[Healing, ...] = ()

    @property
    def failure(self) -> HealthFinding | None:
        """The finding that failed, or None."""
        return next((each for each in self.findings if each.state == "fail"), None)


HEALTH = list[Health]


WORST_LOSS: Final = 0.05
"""Largest share of lost frames on a usable line; above it, transfers are slow and may fail."""

_FASTER: Final = 1.2
"""Ratio of goodput from which a rate counts as faster than another."""

_LOSS_CODE: Final = 75
"""Exit code when the line loses too many frames."""


_HOST_ERRORS: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EAGAIN)


_MISSING_DEVICE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


_PRINTABLE: Final = string.printable.encode()


_TEXT_SHARE: Final = 0.9
"""Share of printable bytes above which output is text: a third of noise is printable, and nearly
all output of a program, but for color codes."""


def best_rate(rates: Sequence[RateQuality]) -> int | None:
    """Return the rate with the highest goodput among the good ones.

    None if there is nothing to choose: one rate was measured, no rate is good, or no rate is faster
    than the first, as on a simulated line.
    """
    good = [rate for rate in rates if rate.heard and rate.loss <= GOOD_LOSS and not rate.overruns]
    if len(rates) < 2 or not good:
        return None
    best = max(good, key=_bytes_per_s)
    if len(good) > 1 and _bytes_per_s(best) < _FASTER * _bytes_per_s(good[0]):
        return None
    return best.baud


def _bytes_per_s(rate: RateQuality) -> float:
    """Return bytes per second down, or up if nothing was downloaded."""
    return rate.down_bytes_s or rate.up_bytes_s or 0.0


def examine(
    unit: Unit, *, goodput: bool = False, rates: bool = False, image: Path | None = None
) -> Health:
    """Examine a unit while holding its lease; a unit in use by somebody else is a finding.

    The board is left unchanged, except that ``goodput`` and ``rates`` replace its model and trace.
    A postmortem is kept in any case.

    Args:
        unit: The unit.
        goodput: Measure the upload of a model and the download of a trace at the rate of a run.
        rates: Measure all rates that the board supports.
        image: The firmware expected on the board, compared by build id; None for any, or for the
            firmware built here if the board is simulated.

    Raises:
        UsageError: The unit's board is unknown, or the image is invalid or has no build id.
    """
    build_id = read_image(image).build_id() if image is not None else None
    if image is not None and build_id is None:
        raise UsageError(f"{image} has no build id, so the firmware of a board cannot be verified")
    examination = _Examination(unit, load_board(unit.board)[0], goodput=goodput, rates=rates)
    return examination.health(build_id)


class _Examination:
    """An examination in progress: its findings so far, and who owns a failure of the next step."""

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
        """Examine all parts, and return the findings; ``build_id`` is the expected firmware."""
        try:
            unit_s = self._board.deadlines.unit_s
            with hold_if(self._unit, reason="health", timeout_s=unit_s) as found:
                # With the port that a labgrid coordinator reports.
                self._unit = found or self._unit
                firmware = self._firmware()
                with self._opened(firmware) as target:
                    self._examine_board(
                        target, build_id or (firmware.build_id if firmware else None)
                    )
        except HarnessError as error:
            self._exit_code = error.exit_code
            self._add("fail", error.message, self._owner(error), error.hint)
        port = self._unit.port
        failures = (each for each in self._findings if each.state == "fail")
        return Health(
            unit=self._unit.id,
            board=self._board.name,
            port=None if port is None else port_text(port),
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

    def _add(
        self,
        state: Literal["ok", "warn", "fail"],
        message: str,
        owner: Owner | None = None,
        hint: str = "",
    ) -> None:
        took = round(time.monotonic() - self._began, 3)
        # Messages may quote arbitrary bytes from the board.
        texts = printable(message), printable(hint)
        self._findings.append(HealthFinding(self._part, state, texts[0], took, owner, texts[1]))

    def _firmware(self) -> Firmware | None:
        """Build the firmware of a simulated board."""
        if isinstance(self._board.target, SerialTarget):
            return None
        self._begin("firmware")
        firmware = build_firmware(self._board)
        self._add("ok", f"builds: {firmware.image}")
        return firmware

    @contextmanager
    def _opened(self, firmware: Firmware | None) -> Iterator[Target]:
        port = self._unit.port
        self._begin("port", lambda error: owner_of_port(error, port))
        with start_target(self._board, firmware, port=port) as target:
            self._add("ok", f"opens: {target.description}")
            yield target

    def _examine_board(self, target: Target, build_id: str | None) -> None:
        if self._unit.health == "none":
            self._begin("answer")
            self._add("ok", 'skipped: health = "none" in units.toml')
            return
        session = start_session(target, self._board, self._console.extend)
        self._begin(
            "answer",
            lambda error: owner_of_silence(error, session.statistics, self._console.kept),
        )
        info = greet(session, self._board)
        self._add("ok", f"answers after {time.monotonic() - self._began:.2f} s")
        self._begin("identity")
        check_identity(info, self._board, build_id)
        clock = info.clocks[0]
        self._add(
            "ok",
            f"{info.board} on {info.cpu}, firmware {info.build_id}, a clock of {clock.hz} Hz and "
            f"{clock.bits} bits",
        )
        self._look_for_crash(session, info)
        self._measure(session, info)

    def _look_for_crash(self, session: Session, info: TargetInfo) -> None:
        """Check for a postmortem, and leave it on the board."""
        self._begin("crash")
        try:
            crashes = postmortems() if info.postmortem else None
            kept = crashes and crashes.fetch(session)
        except FormatError as error:
            message = f"the board has an unreadable postmortem: {error.message}"
            self._add("warn", message, Owner.PRODUCT)
            return
        if not info.postmortem:
            self._add("ok", "no postmortem")
            return
        message = f": {kept.document.message}" if kept else ""
        self._add(
            "warn",
            f"the board has the postmortem of a crash{message}",
            Owner.PRODUCT,
            "`etharness postmortem` shows it; with --clear it is also removed from the board",
        )

    def _measure(self, session: Session, info: TargetInfo) -> None:
        """Measure the line: at all rates, or at the one that a run would use."""
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
        self._evaluate_line()

    def _evaluate_line(self) -> None:
        """Evaluate the line by the best measured rate: one good rate is enough."""
        best = min(self._rates, key=lambda rate: (not rate.heard, rate.loss, rate.overruns))
        message = f"{best.loss:.2%} of {best.frames} frames were lost or damaged"
        message += f" at {best.baud} baud" if best.baud else ""
        if best.overruns:
            message += f", and the board's UART lost bytes {counted(best.overruns, 'time')}"
        silent = [str(rate.baud) for rate in self._rates if not rate.heard]
        if silent:
            message += f"; no answer at {', '.join(silent)} baud"
        hint = "check cable, adapter and ground; --rates tries slower rates"
        if best.loss > WORST_LOSS:
            self._exit_code = _LOSS_CODE
            self._add("fail", message, Owner.LINK, hint)
        elif best.loss > GOOD_LOSS or best.overruns or silent:
            self._add("warn", message, Owner.LINK, hint)
        else:
            self._add("ok", message)


def owner_of_port(error: HarnessError, port: UsbPort | str | None) -> Owner:
    """Return the owner of a failure to open a port."""
    if not isinstance(error, PortError):
        return error.owner
    if isinstance(port, UsbPort):
        matching = sum(each.matches(port) for each in list_ports())
        if matching != 1:
            return Owner.TEST if matching else Owner.BOARD
    number = getattr(error.__cause__, "errno", None)
    if number in _HOST_ERRORS:
        return Owner.HOST
    # A missing server is a fault of the link, not of the board.
    local = not isinstance(port, str) or "://" not in port
    return Owner.BOARD if local and number in _MISSING_DEVICE else error.owner


def owner_of_silence(error: HarnessError, heard: LinkStatistics, console: bytes) -> Owner:
    """Return the owner of a failed HELLO, given the bytes that arrived."""
    if not isinstance(error, LinkError) or isinstance(error, TransportClosedError):
        return error.owner
    if not heard.bytes_received:
        return Owner.BOARD
    if heard.frames_received or heard.corrupt.total() or not console:
        return Owner.LINK
    text = len(console) - len(console.translate(None, _PRINTABLE))
    return Owner.FLASH if text >= _TEXT_SHARE * len(console) else Owner.LINK


def show_health(console: Console, health: Health, *, verbosity: int = 0) -> None:
    """Print the health of a unit: all findings, or only the last line if ``verbosity`` is negative.

    Args:
        console: The console.
        health: The findings.
        verbosity: Negative for the last line alone.
    """
    if verbosity >= 0:
        rows = [
            (each.state if each.state == "ok" else each.state.upper(), each.part, each.message)
            for each in health.findings
        ]
        where = f" on {health.port}" if health.port else ""
        show_table(
            console, ("", "part", "found"), rows, title=f"{health.unit}, {health.board}{where}"
        )
        if health.rates:
            _show_rates(console, health)
        for step in health.healing:
            became = "well" if step.healthy else "still not well"
            show_line(console, f"{step.step}: {step.outcome}; it was {became} then")
    failure = health.failure
    if failure is None:
        show_line(console, f"{health.unit} is well", style="bold green")
        return
    owner = f" ({failure.owner})" if failure.owner else ""
    text = f"{health.unit} is NOT well{owner}: {failure.message}"
    show_line(console, text, indent=4, style="bold red")
    if failure.hint:
        show_line(console, f"  try: {failure.hint}", indent=4)


def _show_rates(console: Console, health: Health) -> None:
    headers = ["baud", "round trip [us]", "longest", "up [kB/s]", "down [kB/s]", "frames"]
    headers += ["loss [%]", "overruns", ""]
    rows = []
    for rate in health.rates:
        typical, longest = rate.round_trip_us or (None, None)
        rows.append(
            (
                str(rate.baud or "none"),
                _number(typical),
                _number(longest),
                _number(rate.up_bytes_s, 1000, 1),
                _number(rate.down_bytes_s, 1000, 1),
                str(rate.frames),
                f"{100 * rate.loss:.2f}",
                str(rate.overruns),
                rate.message,
            )
        )
    show_table(console, headers, rows, title="Line", numbers=range(8))
    if health.advised_baud is not None:
        show_line(console, f"best for units.toml: baud = {health.advised_baud}")


def _number(value: float | None, divisor: int = 1, decimals: int = 0) -> str:
    return "-" if value is None else f"{value / divisor:.{decimals}f}"


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
        chosen = Chosen(unit.board, unit.port, unit.id, unit)
        record = flash_board(chosen, Path(output), how)
    return f"{record.image} flashed with {record.tool}"


def _reset(unit: Unit) -> str:
    """Reset the board and wait for HELLO; a simulated board restarts with every command."""
    board = load_board(unit.board)[0]
    if unit.port is None:
        return "simulated board: restarts with every command"
    with started(board, None, port=unit.port) as session:
        greet(session, board)
        session.reset(Reset.REBOOT)
        greet(session, board)
    return "board reset, and answers again"
