"""Examines a unit part by part, and attributes each failure to an owner.

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

A silent board is examined again after a power cycle if its power can be switched (``repair``); if
it answers then, its firmware had hung.
"""

from __future__ import annotations

import copy
import errno
import statistics
import string
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from harness.capped import CappedBuffer
from harness.config.board import Board, SerialTarget, load_board
from harness.config.unit import Unit, UsbPort
from harness.errors import (
    DeviceRefusedError,
    FormatError,
    HarnessError,
    LinkError,
    Owner,
    PortError,
    TransportClosedError,
    UsageError,
)
from harness.files import data_directory
from harness.flash.image import read_image
from harness.formatting import printable
from harness.lab.postmortem import fetch
from harness.lab.units import check_identity, hold_if
from harness.link.exchange import LinkStatistics
from harness.link.session import Session
from harness.link.values import TargetInfo
from harness.link.wire import Region, Reset
from harness.records.lab import Health, HealthFinding, Part, RateQuality
from harness.target.build import Firmware, build_firmware
from harness.target.ports import describe, list_ports
from harness.target.start import Target, start_target

PINGS: Final = 20
GOOD_LOSS: Final = 0.001
"""Largest share of lost frames on a good line; above it, the line gets a warning."""
WORST_LOSS: Final = 0.05
"""Largest share of lost frames on a usable line; above it, transfers are slow and may fail."""

_FASTER: Final = 1.2
"""Ratio of goodput from which a rate counts as faster than another."""

_MODEL: Final = "small_int8.pte"
_UP: Final = 16_384
"""Bytes to upload, the model padded with zeros: over a second on the slowest usual line."""
_RUNS: Final = 40
"""Executions to log: some ten thousand bytes to download."""


_LOSS_CODE: Final = 75
"""Exit code when the line loses too many frames."""


_HOST_ERRORS: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EAGAIN)


_MISSING_DEVICE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)


_PRINTABLE: Final = string.printable.encode()


_TEXT_SHARE: Final = 0.9
"""Share of printable bytes above which output is text: a third of noise is printable, and nearly
all output of a program, but for color codes."""


def measure(
    session: Session, info: TargetInfo, baud: int, execute_s: float, *, goodput: bool = True
) -> RateQuality:
    """Measure the line at its current rate: PING, upload of a model, download of a trace.

    On a board with a postmortem nothing is executed, because that would remove the postmortem.

    Args:
        session: A session after HELLO.
        info: The board's answer to HELLO.
        baud: Current rate of the line, bits per second; 0 for a line without a rate.
        execute_s: Longest wait for an execution, seconds.
        goodput: Transfer model and trace; they replace those on the board.

    Raises:
        LinkError: The line is unusable.
        TargetError: The board crashed or stopped.
    """
    session.status()  # updates the counters of the device's side
    before = copy.deepcopy(session.statistics)
    pings = [session.ping() for _ in range(PINGS)]
    times = [(ping.host_after_ns - ping.host_before_ns) / 1000 for ping in pings]
    up, down = _goodput(session, info, execute_s) if goodput else (None, None)
    session.status()
    counts = session.statistics.since(before)
    return RateQuality(
        baud=baud,
        heard=True,
        pings=len(pings),
        round_trip_us=(round(statistics.median(times), 1), round(max(times), 1)),
        up_bytes_s=up,
        down_bytes_s=down,
        frames=counts.frames_received,
        loss=round(counts.loss, 6),
        overruns=counts.overruns,
    )


def measure_rates(
    session: Session,
    info: TargetInfo,
    bauds: Sequence[int],
    timeout_s: float,
    execute_s: float,
    *,
    goodput_at: Collection[int] | None = None,
) -> list[RateQuality]:
    """Measure the line at each rate, and restore the first rate.

    Args:
        session: A session after HELLO.
        info: The board's answer to HELLO.
        bauds: The rates, bits per second.
        timeout_s: Longest wait for a board that does not answer at a rate to return to the first.
        execute_s: Longest wait for an execution, seconds.
        goodput_at: The rates at which model and trace are transferred; None for all.

    Raises:
        LinkError: The board does not answer at the first rate any more.
        TargetError: The board crashed or stopped.
    """
    measured = []
    for baud in bauds:
        got = session.raise_baud([baud])
        if got != baud:
            measured.append(RateQuality(baud, heard=False, message=f"stays at {got}"))
            continue
        try:
            goodput = goodput_at is None or baud in goodput_at
            measured.append(measure(session, info, baud, execute_s, goodput=goodput))
        except LinkError as error:
            measured.append(RateQuality(baud, heard=False, message=error.message))
            session.hello(timeout_s)
    session.restore_baud()
    return measured


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


def _goodput(
    session: Session, info: TargetInfo, execute_s: float
) -> tuple[float | None, float | None]:
    """Return bytes per second up and down; None for a direction that could not be measured."""
    program = (data_directory("firmware_stub") / "models" / _MODEL).read_bytes()
    model = program.ljust(_UP, b"\0")[: info.model_capacity]
    if len(model) < len(program):
        return None, None
    began = time.monotonic()
    try:
        inputs = session.load_model(model).inputs
    except DeviceRefusedError:
        # The upload is complete and verified; the board refuses it for its missing kernels.
        return _rate(len(model), time.monotonic() - began), None
    up = _rate(len(model), time.monotonic() - began)
    if info.postmortem:
        session.reset(Reset.SESSION)
        return up, None
    for index, tensor in enumerate(inputs):
        session.set_input(index, bytes(tensor.nbytes))
    session.run(_RUNS, timeout_s=execute_s)
    figures = session.statistics
    size, time_us = figures.read_bytes, figures.read_us
    session.read(Region.TRACE)
    down = _rate(figures.read_bytes - size, (figures.read_us - time_us) / 1e6)
    session.reset(Reset.SESSION)
    return up, down


def _rate(size: int, seconds: float) -> float:
    return round(size / max(seconds, 1e-6), 1)


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
        self._add("ok", f"answers after {time.monotonic() - self._began:.2f} s")
        self._begin("identity")
        check_identity(info, self._board, build_id)
        clock = info.clocks[0]
        self._add(
            "ok",
            f"{info.board} on {info.cpu}, firmware {info.build_id}, a clock of {clock.hz} Hz and "
            f"{clock.bits} bits",
        )
        self._look_for_crash(session)
        self._measure(session, info)

    def _look_for_crash(self, session: Session) -> None:
        """Check for a postmortem, and leave it on the board."""
        self._begin("crash")
        try:
            kept = fetch(session)
        except FormatError as error:
            message = f"the board has an unreadable postmortem: {error.message}"
            self._add("warn", message, Owner.PRODUCT)
            return
        if kept is None:
            self._add("ok", "no postmortem")
            return
        self._add(
            "warn",
            f"the board has the postmortem of a crash: {kept.document.message}",
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
            message += f", and the board's UART lost bytes {best.overruns} times"
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
