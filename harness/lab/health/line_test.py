"""What the line to a board carries: round trips, goodput both ways, and what is lost."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Sequence
from typing import Final

from harness.errors import DeviceRefusedError, LinkError
from harness.link.answers import TargetInfo
from harness.link.session import Session
from harness.link.wire import Region, Reset
from harness.records.health import RateQuality
from harness.resources import data_directory

PINGS: Final = 20
GOOD_LOSS: Final = 0.001
"""Up to this share of the frames a line is good; above, somebody should look at it."""
WORST_LOSS: Final = 0.05
"""Above this share a line is no good: transfers take far longer, and may fail."""

_FASTER: Final = 1.2
"""So much more has another rate to carry to be faster."""

_MODEL: Final = "small_int8.pte"
_UP: Final = 16_384
"""Bytes of the model, filled up behind its end: more than a second of the slowest usual line."""
_RUNS: Final = 40
"""Executions that are logged: some ten thousand bytes to bring back."""


def measure(
    session: Session, info: TargetInfo, baud: int, execute_s: float, *, goodput: bool = True
) -> RateQuality:
    """Measure the line as it is: answers to PING, a model up, and a trace down.

    A board that keeps something of a crash is not made to run, which would make it forget that.

    Args:
        session: With a board that has been greeted.
        info: What it said then.
        baud: The rate that the line has, bits per second; 0 for none.
        execute_s: Longest wait for an execution, seconds.
        goodput: With model and trace; those that the board had are lost then.

    Raises:
        LinkError: The line is no good at all.
        TargetError: The board crashed, or died.
    """
    session.status()  # for what the device has counted so far
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
    session: Session, info: TargetInfo, bauds: Sequence[int], timeout_s: float, execute_s: float
) -> list[RateQuality]:
    """Measure the line at each rate, and leave it at the first one.

    Args:
        session: With a board that has been greeted.
        info: What it said then.
        bauds: The rates, bits per second.
        timeout_s: Longest wait for a board that was lost at a rate to be back at the first.
        execute_s: Longest wait for an execution, seconds.

    Raises:
        LinkError: At the first rate nothing is heard any more, either.
        TargetError: The board crashed, or died.
    """
    measured = []
    for baud in bauds:
        got = session.raise_baud([baud])
        if got != baud:
            measured.append(RateQuality(baud, heard=False, said=f"stays at {got}"))
            continue
        try:
            measured.append(measure(session, info, baud, execute_s))
        except LinkError as error:
            measured.append(RateQuality(baud, heard=False, said=error.message))
            session.hello(timeout_s)
    session.restore_baud()
    return measured


def best_rate(rates: Sequence[RateQuality]) -> int | None:
    """The rate that carries most of those that lose next to nothing.

    None if there is no choice: only one was tried, none is good, or none is faster than the first,
    as on a simulated line.
    """
    good = [rate for rate in rates if rate.heard and rate.loss <= GOOD_LOSS and not rate.overruns]
    if len(rates) < 2 or not good:
        return None
    best = max(good, key=_carried)
    if len(good) > 1 and _carried(best) < _FASTER * _carried(good[0]):
        return None
    return best.baud


def _carried(rate: RateQuality) -> float:
    """Bytes per second down, or up where nothing could be brought down."""
    return rate.down_bytes_s or rate.up_bytes_s or 0.0


def _goodput(
    session: Session, info: TargetInfo, execute_s: float
) -> tuple[float | None, float | None]:
    """Bytes per second up and down; None where none could be brought over."""
    program = (data_directory("firmware_stub") / "models" / _MODEL).read_bytes()
    model = program.ljust(_UP, b"\0")[: info.model_capacity]
    if len(model) < len(program):
        return None, None
    began = time.monotonic()
    try:
        inputs = session.load_model(model).inputs
    except DeviceRefusedError:
        # It was brought over, and is the one that was sent: only its kernels are missing here.
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
