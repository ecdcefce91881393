"""Effects: everything that a night does to the world beside writing its journal.

The night's own logic knows only the protocol, so that tests can put a world in its place that is
made up, and crashes whenever they like.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from harness.nightly.child import Ending
from harness.nightly.classify import Examined
from harness.nightly.units import NightUnit
from harness.records.nightly import NightlyStep
from harness.records.result import Failure, Result


class Effects(Protocol):
    """What a night can do. Nothing of it raises for what a board does."""

    @property
    def stopped(self) -> bool:
        """Whether the night is to end now."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, which never jump."""
        ...

    def utc(self) -> str:
        """The time for people, ISO 8601."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, unless the night is to end."""
        ...

    def lease(self, unit: NightUnit, timeout_s: float) -> AbstractContextManager[object]:
        """Hold a unit alone.

        Raises:
            BusyError: Somebody else holds it.
            HarnessError: It cannot be held.
        """
        ...

    def slot(self, unit: NightUnit) -> AbstractContextManager[object]:
        """Wait until this host has a processor for a unit whose firmware runs on it."""
        ...

    def examine(self, unit: NightUnit) -> Examined:
        """Ask a unit how it is."""
        ...

    def power_cycle(self, unit: NightUnit) -> Examined:
        """Take its power away and give it back; whether that could be done."""
        ...

    def flash(self, unit: NightUnit, image: Path, *, again: bool) -> tuple[Ending, Failure | None]:
        """Bring an image onto it, unless it is there; ``again`` whatever is there.

        Returns:
            How its process ended, and what it has written down of why it failed.
        """
        ...

    def run(self, unit: NightUnit, step: NightlyStep, directory: Path, deadline_s: float) -> Ending:
        """Run a model."""
        ...

    def result(self, directory: Path) -> Result | None:
        """What a run directory says; None if it says nothing."""
        ...
