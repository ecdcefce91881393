"""Energy of a run: a meter records beside it, and the marker pin's edges place its samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from harness.analyze.energy import energy_record
from harness.analyze.statistics import operator_statistics
from harness.config.board import Board
from harness.meter.recorder import MeterRecorder
from harness.meter.recording import read_recording
from harness.meter.source import Meter, MeterRequest, open_meter
from harness.records.energy import EnergyRecord
from harness.records.trace import Trace
from harness.runs.directory import POWER, RunDirectory

_log = logging.getLogger(__name__)


@contextmanager
def opened_meter(request: MeterRequest | None) -> Iterator[Meter | None]:
    """Open the meter of a request, if it has one, and close it at the end.

    Raises:
        MeterError: It was not found, is in use, or does not answer.
    """
    if request is None:
        yield None
        return
    meter = open_meter(request)
    try:
        yield meter
    finally:
        meter.close()


@contextmanager
def recorded_energy(meter: Meter | None, directory: RunDirectory) -> Iterator[None]:
    """Record a meter into a run directory.

    Raises:
        MeterError: The meter failed.
    """
    if meter is None:
        yield
        return
    with MeterRecorder(meter, directory.path / POWER) as recorder:
        yield
        _log.info("%d samples of the current recorded", recorder.finish())


def measured_energy(trace: Trace, directory: RunDirectory, board: Board) -> EnergyRecord | None:
    """Return the energy of a run; None if it was not recorded."""
    path = directory.path / POWER
    if not path.is_file():
        return None
    wander = Fraction(board.timer.wander_ppm)
    return energy_record(trace, read_recording(path), operator_statistics(trace), wander)
