"""Recorder: writes the samples of a meter to a file in a thread beside the run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from harness.errors import HarnessError, HostError, MeterError
from harness.meter.recording import RecordingWriter
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
        self._samples = 0
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
        self._ending.set()
        self._thread.join()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _record(self) -> None:
        try:
            self._write_samples()
        except HarnessError as error:
            self._error = error
        except OSError as error:
            self._error = HostError.of(error, f"{self._path} was not written")
        finally:
            self._flowing.set()

    def _write_samples(self) -> None:
        meter = self._meter
        writer: RecordingWriter | None = None
        stop_at = stopped_at = heard_at = 0.0
        try:
            while True:
                block = meter.read(_READ_S)
                now = time.monotonic()
                if block is not None:
                    if writer is None:  # only now some meters know their rate
                        writer = RecordingWriter(self._path, meter.header)
                    writer.write(block)
                    self._samples += len(block)
                    self._flowing.set()
                    heard_at = now
                if not self._ending.is_set():
                    continue
                stop_at = stop_at or now + _TAIL_S
                if not stopped_at and now >= stop_at:
                    meter.stop()
                    stopped_at = heard_at = now
                if stopped_at and (now > heard_at + _QUIET_S or now > stopped_at + _DRAIN_S):
                    return
        finally:
            if writer is not None:
                writer.close()
