"""The meter of a run, as the steps of the run see it; most runs have none."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, cast

from harness.config.board import Board
from harness.config.unit import MeterRequest
from harness.plugins import METERS, load_extension, load_plugin
from harness.records.energy import EnergyRecord, MeasuredEnergy
from harness.records.result import Result
from harness.records.trace import Trace
from harness.runs.directory import RunDirectory

_log = logging.getLogger(__name__)


class RunMeter(Protocol):
    """The meter of a run and of its test sets.

    A meter that fails beside a run must not cost its trace. So ``stop`` and ``energy`` keep the
    failure, which ``check`` raises when the run is complete.
    """

    def opened(self) -> AbstractContextManager[None]:
        """Open the meter, and close it at the end, whatever it was doing.

        Raises:
            MeterError: It was not found, is in use, or does not answer.
        """

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
        """Return the energy of a run, of what was recorded before a failure; None without any."""

    def check(self) -> None:
        """Raise the failure of the meter, if it failed.

        Raises:
            HarnessError: The meter failed during the run, or its file is missing or invalid.
        """


class MeterPlugin(Protocol):
    """What the extension ``energy`` does."""

    def recording_meter(self, request: MeterRequest) -> RunMeter:
        """Return a meter that records beside a run."""

    def event_energy_of_run(
        self, trace: Trace, record: EnergyRecord, directory: Path
    ) -> MeasuredEnergy | None:
        """Return the energy of each event of a finished run; None if it is unknown."""


def meter_of_run(request: MeterRequest) -> RunMeter:
    """Return the meter that was requested.

    Raises:
        UsageError: The extension that records is not installed.
    """
    plugin: MeterPlugin = load_extension(
        *(METERS, "energy", f"cannot record with {request.address}: meters are"),
        "energy, or give --energy none",
    )
    return plugin.recording_meter(request)


def energy_of_run(
    trace: Trace, result: Result | None, directory: Path | None
) -> MeasuredEnergy | None:
    """Return the energy of each event of a finished run; None if it is unknown."""
    record = result.energy if result is not None else None
    if record is None or record.unknown or directory is None:
        return None
    plugin = cast("MeterPlugin | None", load_plugin(METERS, "energy"))
    if plugin is None:
        _log.warning("%s: no energy of events: the extension energy is missing", directory)
        return None
    return plugin.event_energy_of_run(trace, record, directory)
