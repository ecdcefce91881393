"""Effects: every action of a nightly run except writing its journal.

Workers use only this protocol, so that tests can replace it by a simulation with crashes at any
point.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from harness.nightly.child import Ending
from harness.nightly.classify import Examined
from harness.nightly.plan import NightUnit
from harness.records.nightly import NightlyStep
from harness.records.result import Failure, Result


class Effects(Protocol):
    """Actions of a nightly run. A fault of a board is a return value, not an exception."""

    @property
    def stopped(self) -> bool:
        """Whether the nightly run is to stop."""
        ...

    def monotonic(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    def utc(self) -> str:
        """The current time, ISO 8601."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the nightly run stops."""
        ...

    def lease(self, unit: NightUnit, timeout_s: float) -> AbstractContextManager[object]:
        """Hold the lease of a unit.

        Raises:
            BusyError: The unit is in use by somebody else.
            HarnessError: The lease failed.
        """
        ...

    def slot(self, unit: NightUnit) -> AbstractContextManager[object]:
        """Wait for a free processor if the unit is simulated on this host."""
        ...

    def examine(self, unit: NightUnit) -> Examined:
        """Examine the health of a unit."""
        ...

    def power_cycle(self, unit: NightUnit) -> Examined:
        """Power-cycle a unit; the result is well if that succeeded."""
        ...

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        """Flash a unit unless it runs the image; ``again`` flashes in any case.

        Returns:
            The end of the process, and the failure that it recorded.
        """
        ...

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a step."""
        ...

    def result(self, directory: Path) -> Result | None:
        """Read the result of a run directory; None if there is no readable result."""
        ...
