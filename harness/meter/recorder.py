"""Recorder: writes the samples of a meter to a file in a thread beside the run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from harness.errors import HostError, MeterError
from harness.meter.recording import RecordingWriter, SampleBlock
from harness.meter.source import Meter

_READ_S: Final = 0.02
_FIRST_S: Final = 5.0
"""Longest wait for the first sample."""

_TAIL_S: Final = 0.05
"""Recorded after the end of the run, so that the last edge is not on its way any more."""

_QUIET_S: Final = 0.2
_DRAIN_S: Final = 10.0
"""After the stop, samples are read until none arrives for the first, at most for the second."""


class MeterRecorder:
    """Records a meter while it is open. It holds one read of the meter in memory, never more."""

    def __init__(self, meter: Meter, path: Path) -> None:
        """Start the meter, and wait until samples arrive.

        Raises:
            MeterError: No samples arrive.
        """
        self._meter, self._path = meter, path
        self._ending, self._flowing = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._writer: RecordingWriter | None = None
        self._samples = 0
        self._abandoned = False
        meter.start()
        self._thread = threading.Thread(target=self._record, name="meter", daemon=True)
        self._thread.start()
        if meter.live and not self._flowing.wait(_FIRST_S):
            self._ending.set()
            self._thread.join()
            self._check()
            raise MeterError(
                "the meter sends no samples", hint="unplug it and plug it in again, and try again"
            )

    def finish(self) -> int:
        """Stop the meter, write what is on its way, and return the number of samples.

        Raises:
            HarnessError: The meter failed during the run.
        """
        self._ending.set()
        self._thread.join()
        self._check()
        return self._samples

    def __enter__(self) -> MeterRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._abandoned = kind is not None
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
        meter = self._meter
        try:
            stop_at = 0.0
            while not stop_at or time.monotonic() < stop_at:
                self._write(meter.read(_READ_S))
                if self._ending.is_set():
                    stop_at = stop_at or time.monotonic() + _TAIL_S
            if self._abandoned and not meter.live:
                return  # nobody waits for the file of a run that failed
            meter.stop()
            deadline = time.monotonic() + _DRAIN_S
            while self._write(meter.read(_QUIET_S)):
                if meter.live and time.monotonic() > deadline:
                    return
        finally:
            if self._writer is not None:
                self._writer.close()

    def _write(self, block: SampleBlock | None) -> bool:
        """Write a block; return whether there was one."""
        if block is None:
            return False
        if self._writer is None:  # only now some meters know their rate
            self._writer = RecordingWriter(self._path, self._meter.header)
        self._writer.write(block)
        self._samples += len(block)
        self._flowing.set()
        return True
