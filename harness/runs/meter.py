"""The meter of a run, as the steps of the run see it; most runs have none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.config.board import Board
from harness.config.meter import MeterRequest
from harness.records.energy import EnergyRecord
from harness.records.trace import Trace
from harness.runs.directory import RunDirectory


class RunMeter:
    """The meter of a run and of its test sets. This one records nothing.

    A meter that fails beside a run must not cost its trace. So ``stop`` and ``energy`` keep the
    failure, which ``check`` raises when the run is complete.
    """

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the meter, and close it at the end, whatever it was doing.

        Raises:
            MeterError: It was not found, is in use, or does not answer.
        """
        yield

    def start(self, directory: RunDirectory) -> None:
        """Record into a run directory from now on; nothing after a failure.

        Raises:
            MeterError: The meter sends no samples, and has not recorded any test set before.
        """

    def interrupt(self) -> None:
        """Do not wait any more for what somebody has to do after the run."""

    def stop(self) -> None:
        """End the recording of a live meter, because the model is not executed any more.

        A CSV file is waited for only by ``energy``, when the trace is safe.
        """

    def energy(self, trace: Trace, directory: RunDirectory, board: Board) -> EnergyRecord | None:
        """Return the energy of a run, of what was recorded before a failure; None without meter."""
        del trace, directory, board  # nothing was recorded
        return None

    def check(self) -> None:
        """Raise the failure of the meter, if it failed.

        Raises:
            HarnessError: The meter failed during the run, or its file is missing or invalid.
        """


def meter_of_run(request: MeterRequest | None) -> RunMeter:
    """Return the meter that was requested."""
    if request is None:
        return RunMeter()
    # Only runs with a meter need the code of meters and of energy.
    from harness.runs.energy import RecordingMeter

    return RecordingMeter(request)
