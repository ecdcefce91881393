"""Measures the line to a board: losses, round trips and throughput at each of its rates."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from harness.check.fit import check_loaded
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, LinkError
from harness.files import data_directory
from harness.link.messages import TargetInfo
from harness.link.session import Session
from harness.link.wire import Region, Reset

PINGS: Final = 20
GOOD_LOSS: Final = 0.001
"""Largest share of lost frames on a good line; above it, the line gets a warning."""
_MODEL: Final = "small_int8.pte"
_UP: Final = 16_384
"""Bytes to upload, the model padded with zeros: over a second on the slowest usual line."""
_RUNS: Final = 40
"""Executions to log: some ten thousand bytes to download."""


class RateQuality(msgspec.Struct, frozen=True):
    """Quality of a line at a baud rate, bits per second; 0 if the line has no rate.

    ``heard``: both ends received each other; if false, nothing was measured, and ``message`` is
    the reason. ``round_trip_us`` are the median and the maximum of ``pings`` round trips,
    microseconds. ``up_bytes_s`` and ``down_bytes_s`` are payload bytes per second of a model upload
    and a trace download, digests included; null if the transfer failed. ``loss`` is the known share
    of ``frames`` that were lost or damaged; ``overruns`` is the number of UART overruns on the
    board.
    """

    baud: int
    heard: bool
    message: str = ""
    pings: int = 0
    round_trip_us: tuple[float, float] | None = None
    up_bytes_s: float | None = None
    down_bytes_s: float | None = None
    frames: int = 0
    loss: float = 0.0
    overruns: int = 0


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
        loaded = session.load_model(model)
    except DeviceRefusedError:
        # The upload is complete and verified; the board refuses it for its missing kernels.
        return _rate(len(model), time.monotonic() - began), None
    up = _rate(len(model), time.monotonic() - began)
    check_loaded(info, read_program(program).method("forward"), loaded)
    if info.postmortem:
        session.reset(Reset.SESSION)
        return up, None
    for index, tensor in enumerate(loaded.inputs):
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
