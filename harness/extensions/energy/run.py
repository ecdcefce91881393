"""Energy of a run: a meter records beside it, and the marker pin's edges place its samples.

The samples of a live meter are written to a file by a thread beside the run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.analyze.statistics import operator_statistics
from harness.config.board import Board
from harness.config.unit import MeterRequest
from harness.errors import FormatError, HarnessError, HostError, MeterError, UsageError
from harness.extensions.energy.event_energy import EdgeError, energy_record, measure_energy
from harness.extensions.energy.meters import Meter, open_meter
from harness.extensions.energy.recording import (
    MOST_RECORDING,
    RecordingWriter,
    SampleBlock,
    read_recording,
)
from harness.records.energy import EnergyRecord, MeasuredEnergy
from harness.records.trace import Trace
from harness.runs.directory import POWER, RunDirectory
from harness.runs.meter import RunMeter

_READ_S: Final = 0.02
_FIRST_S: Final = 5.0
"""Longest wait for the first sample."""

_SILENT_S: Final = 10.0
"""A live meter that sends no sample for so long is gone, even if its driver reports no error."""

_TAIL_S: Final = 0.05
"""Recorded after the end of the run, so that the last edge is not on its way any more."""

_QUIET_S: Final = 0.2
_DRAIN_S: Final = 10.0
"""After the stop, samples are read until none arrives for the first, at most for the second."""


class MeterRecorder:
    """Records a meter while it is open. It holds one read of the meter in memory, never more."""

    def __init__(self, meter: Meter, path: Path) -> None:
        """Start the meter, and wait until samples arrive if it is a live one.

        Raises:
            MeterError: No samples arrive.
        """
        self._meter, self._path = meter, path
        self._ending, self._flowing = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._writer: RecordingWriter | None = None
        self._samples = 0
        # The samples of other meters are read by ``finish``, which Ctrl-C can end in any thread.
        self._thread = threading.Thread(target=self._record, name="meter", daemon=True)
        meter.start()
        if not meter.live:
            return
        self._thread.start()
        if not self._flowing.wait(_FIRST_S):
            self._join()
            self._check()
            raise MeterError(
                "the meter sends no samples", hint="unplug it and plug it in again, and try again"
            )

    def finish(self) -> int:
        """Stop the meter, write what is on its way, and return the number of samples.

        Raises:
            HarnessError: The meter failed during the run.
        """
        if self._meter.live:
            self._join()
        else:
            self._record()
        self._check()
        return self._samples

    def __enter__(self) -> MeterRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording and close the file, if ``finish`` did not; errors are left out."""
        if self._meter.live:
            self._join()

    def _join(self) -> None:
        self._ending.set()
        self._thread.join()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _record(self) -> None:
        try:
            self._write_samples()
        except OSError as error:
            self._error = HostError.of(error, f"{self._path} was not written")
        except Exception as error:  # raised by ``finish``, in the thread that runs the model
            self._error = error
        finally:
            self._flowing.set()

    def _write_samples(self) -> None:
        try:
            if self._meter.live:
                self._write_until_end()
            self._meter.stop()
            deadline = time.monotonic() + _DRAIN_S
            while self._write(self._meter.read(_QUIET_S)):
                if self._meter.live and time.monotonic() > deadline:
                    return
        finally:
            if self._writer is not None:
                self._writer.close()

    def _write_until_end(self) -> None:
        """Write samples until the end of the run.

        Raises:
            MeterError: The meter has stopped sending.
        """
        stop_at, heard_at = 0.0, time.monotonic()
        while not stop_at or time.monotonic() < stop_at:
            if self._write(self._meter.read(_READ_S)):
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENT_S:
                raise MeterError(
                    f"the meter has sent no sample for {_SILENT_S:g} s", hint="check its USB cable"
                )
            if self._ending.is_set():
                stop_at = stop_at or time.monotonic() + _TAIL_S

    def _write(self, block: SampleBlock | None) -> bool:
        """Write a block; return whether there was one."""
        if block is None:
            return False
        if self._writer is None:  # only now some meters know their rate
            self._writer = RecordingWriter(self._path, self._meter.header)
        self._writer.write(block)
        if self._writer.size > MOST_RECORDING:
            raise UsageError(
                f"{self._path}: the recording exceeds {MOST_RECORDING:,} bytes",
                hint="run the model less often",
            )
        self._samples += len(block)
        self._flowing.set()
        return True


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


recording_meter = RecordingMeter


def event_energy_of_run(
    trace: Trace, record: EnergyRecord, directory: Path
) -> MeasuredEnergy | None:
    """Return the energy of each event of a finished run; None if it is unknown."""
    try:
        recording = read_recording(directory / POWER)
        return measure_energy(trace, recording, Fraction(record.wander_ppm))
    except (OSError, EdgeError, FormatError) as error:
        _log.warning("%s: no energy: %s", directory, error)
        return None
