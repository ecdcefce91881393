"""Energy of a run: a meter records beside it, and the marker pin's edges place its samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from msgspec.structs import replace

from harness.analyze.energy import MeasuredEnergy, energy_record, measure_energy
from harness.analyze.marker_edges import EdgeError
from harness.analyze.statistics import operator_statistics
from harness.config.board import Board
from harness.config.meter import MeterRequest
from harness.errors import FormatError, HarnessError, MeterError, UsageError
from harness.meter.recorder import MeterRecorder
from harness.meter.recording import read_recording
from harness.meter.source import Meter, open_meter
from harness.records.energy import EnergyRecord
from harness.records.result import Result
from harness.records.trace import Trace
from harness.runs.directory import POWER, RunDirectory
from harness.runs.meter import RunMeter

_log = logging.getLogger(__name__)


class RecordingMeter(RunMeter):
    """A meter that records beside a run, and the energy by its samples."""

    def __init__(self, request: MeterRequest) -> None:
        self._request = request
        self._meter: Meter | None = None
        self._recorder: MeterRecorder | None = None
        self._failure: HarnessError | None = None
        self._missing = ""
        self._interrupted = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the meter, and close it at the end."""
        self._meter = open_meter(self._request)
        try:
            yield
        finally:
            if self._recorder is not None:
                self._recorder.close()
            self._meter.close()

    def start(self, directory: RunDirectory) -> None:
        """Record into a run directory from now on."""
        if self._meter is not None and self._failure is None:
            self._recorder = MeterRecorder(self._meter, directory.path / POWER)

    def interrupt(self) -> None:
        """Do not wait for a CSV file any more."""
        self._interrupted = True

    def stop(self) -> None:
        """End the recording of a live meter."""
        if self._meter is not None and self._meter.live:
            self._finish()

    def energy(self, trace: Trace, directory: RunDirectory, board: Board) -> EnergyRecord:
        """Return the energy of a run, of what was recorded before a failure."""
        self._finish()
        path, missing = directory.path / POWER, self._missing
        try:
            recording = read_recording(path) if path.is_file() else None
        except FormatError as error:  # the disk was full, for example
            recording, missing = None, missing or error.message
        if recording is None:
            record = EnergyRecord(self._request.address, 0.0, 0, 0, 0, 0)
            return replace(record, missing=missing, unknown=missing)
        wander = Fraction(board.timer.wander_ppm)
        record = energy_record(trace, recording, operator_statistics(trace), wander)
        return replace(record, missing=missing)

    def check(self) -> None:
        """Raise the failure of the meter, if it failed."""
        if self._failure is not None:
            raise self._failure

    def _finish(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None or self._meter is None:
            return
        if self._interrupted and not self._meter.live:
            self._missing = "the run was interrupted before its samples were exported"
            return
        try:
            _log.info("%d samples of the current recorded", recorder.finish())
        except HarnessError as error:
            # A wrong file is no wrong usage any more: the run was carried out.
            wrong = isinstance(error, UsageError)
            self._failure = MeterError(error.message, hint=error.hint) if wrong else error
            self._missing = error.message


def energy_of_run(
    trace: Trace, result: Result | None, directory: Path | None
) -> MeasuredEnergy | None:
    """Return the energy of each event of a finished run; None if it is unknown."""
    record = result.energy if result is not None else None
    if record is None or record.unknown or directory is None:
        return None
    try:
        recording = read_recording(directory / POWER)
        return measure_energy(trace, recording, Fraction(record.wander_ppm))
    except (OSError, EdgeError, FormatError) as error:
        _log.warning("%s: no energy: %s", directory, error)
        return None
