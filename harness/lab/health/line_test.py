"""Measures the line to a board: round trips, goodput both ways, and lost frames."""

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
    session: Session, info: TargetInfo, bauds: Sequence[int], timeout_s: float, execute_s: float
) -> list[RateQuality]:
    """Measure the line at each rate, and restore the first rate.

    Args:
        session: A session after HELLO.
        info: The board's answer to HELLO.
        bauds: The rates, bits per second.
        timeout_s: Longest wait for a board that does not answer at a rate to return to the first.
        execute_s: Longest wait for an execution, seconds.

    Raises:
        LinkError: The board does not answer at the first rate any more.
        TargetError: The board crashed or stopped.
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
