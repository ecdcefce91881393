"""Sources of samples: the meters of ``harness.config.meter``."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from harness.config.meter import MeterRequest
from harness.meter.recording import RecordingHeader, SampleBlock


class Meter(Protocol):
    """A source of samples."""

    live: bool
    """Whether samples arrive while it measures, not only after ``stop``."""

    @property
    def header(self) -> RecordingHeader:
        """What is the same for all samples; known once there is a sample."""
        ...

    def start(self) -> None:
        """Begin to measure."""
        ...

    def read(self, timeout_s: float, /) -> SampleBlock | None:
        """Return the next samples; None if none arrived within ``timeout_s``.

        Raises:
            HarnessError: The meter failed, or its samples are invalid.
        """
        ...

    def stop(self) -> None:
        """End the measurement; samples on their way can still be read."""
        ...

    def close(self) -> None:
        """Release the meter."""
        ...


def open_meter(request: MeterRequest) -> Meter:
    """Open a meter.

    Raises:
        MeterError: It was not found, is in use, or does not answer.
        UsageError: Its driver is not installed.
    """
    if request.kind == "csv":
        from harness.meter.csv_samples import CsvSamples

        return CsvSamples(Path(request.place), request.volts, request.pin)
    if request.kind == "joulescope":
        from harness.meter.joulescope import Joulescope

        return Joulescope.open(request.place, request.pin)
    from harness.meter.ppk2 import Ppk2

    assert request.volts is not None  # checked by ``parse``
    return Ppk2.open(request.place, request.volts, request.pin, supply=request.supply)
